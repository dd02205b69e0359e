"""The one door to every language or vision-language model."""
