"""An E2B-compatible server in front of the house's sandboxes."""
