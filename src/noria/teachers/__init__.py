"""Who shows or scores the right way. One file per teacher."""
