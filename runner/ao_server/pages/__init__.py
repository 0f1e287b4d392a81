"""The pages: HTML that the server renders, over the same calls as the API. They work without JavaScript, too."""
