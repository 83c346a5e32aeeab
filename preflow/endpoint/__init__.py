"""A language model behind an OpenAI-compatible endpoint: asked about texts of others, each question once."""
