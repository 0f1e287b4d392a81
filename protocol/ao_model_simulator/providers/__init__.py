"""The model APIs that are simulated: each reads its requests and words the script's answers in its own way."""
