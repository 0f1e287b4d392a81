"""The words of the services for their errors, by status, as their documents and reports of users have them."""

from typing import Final

ANTHROPIC: Final[dict[int, str]] = {
    401: "invalid x-api-key",
    402: "Your credit balance is too low to access the Anthropic API.",
    403: "Your API key does not have permission to use the specified resource.",
    404: "model: {model}",
    413: "Request exceeds the maximum size",
    429: "This request would exceed your organization's rate limit.",
    500: "Internal server error",
    504: "Request timed out",
    529: "Overloaded",
}
GEMINI: Final[dict[int, str]] = {
    400: "Request contains an invalid argument.",
    401: "API key not valid. Please pass a valid API key.",
    403: "The caller does not have permission",
    404: "models/{model} is not found for API version v1beta, or is not supported for generateContent.",
    429: "Resource has been exhausted (e.g. check quota).",
    500: "An internal error has occurred. Please retry.",
    503: "The model is overloaded. Please try again later.",
    504: "The request timed out. Please try again.",
    529: "The model is overloaded. Please try again later.",
}
OPENAI: Final[dict[int, str]] = {
    401: "Incorrect API key provided: sk-wrong.",
    402: "You exceeded your current quota, please check your plan and billing details.",
    403: "You are not allowed to sample from this model.",
    404: "The model `{model}` does not exist or you do not have access to it.",
    429: "Rate limit reached for {model} on tokens per min (TPM).",
    500: "The server had an error while processing your request. Sorry about that!",
    503: "The server is currently overloaded with other requests. Sorry about that!",
    529: "The server is currently overloaded with other requests. Sorry about that!",
}
