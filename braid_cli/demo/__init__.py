"""The demo: two companies' incident archives, and a tour of them."""
