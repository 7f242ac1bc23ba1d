"""The methods by which a policy is enforced here: each declares, proves that it works, renders, and wraps.

A method is a row of `registry`; others bring theirs through the entry point group `sandwright.methods`.
"""
