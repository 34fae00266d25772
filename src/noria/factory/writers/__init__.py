"""Forms in which others read a dataset; one file per form."""
