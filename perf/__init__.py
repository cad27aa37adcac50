"""coregate: is an optimised model core right, whole, fast, and did it get worse?"""
