"""What is concluded of a partition: the codes, and the rules that find them."""
