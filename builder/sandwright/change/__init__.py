"""The accesses that a change of a policy newly allows or denies, for each method, and attempts of both.

`policies` reads the two policies, `questions` lists the questions about them, `compare` answers these,
`report` writes the result, `stage` and `trial` attempt it in real sandboxes, and `witness` judges the
answers.
"""
