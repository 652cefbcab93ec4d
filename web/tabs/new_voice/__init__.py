"""The New voice tab: clips, what is wrong with them, and a voice made of them."""
