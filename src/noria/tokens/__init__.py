"""From messages to tokens and back: renderer, tool calls, token record."""
