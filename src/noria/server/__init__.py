"""An OpenAI-compatible server over one checkpoint: protocol, requests in one decoding loop, answers."""
