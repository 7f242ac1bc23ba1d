"""What a change of a policy newly allows and newly denies, for each method, and that it does so.

`pair` reads the two policies, `cases` lists what is asked about them, `compare` asks, `report` writes what
came of it, `stage` and `trial` attempt it in real sandboxes, and `witness` judges the answers.
"""
