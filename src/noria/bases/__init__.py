"""What worlds are made of: turns of calls, answers, scripted play, and classes to derive a world from."""
