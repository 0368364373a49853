"""Model endpoints: one contract, the OpenAI wire formats, a router, and providers that need no network."""
