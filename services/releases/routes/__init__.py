"""HTTP routes of the releases service, by who calls them."""
