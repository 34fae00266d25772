"""Task sources: which task the next group of a phase plays. One file each."""
