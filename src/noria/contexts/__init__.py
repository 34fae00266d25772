"""Ways to keep a long episode inside a bounded context; `contexts.base` says what one is."""
