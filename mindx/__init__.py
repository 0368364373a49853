"""mindx: run plans that nobody vetted, without harm."""
