"""Where code that a model wrote runs. One file per sandbox."""
