"""One question to every method: the decision of its artifacts, the rule, and whether the policy agrees.

A method's artifacts are rendered, read back as their consumer reads them, and evaluated, independently of the
renderer. Each answer is then compared with the policy's.

    from sandwright.evaluate.explain.compare import explain_methods

    comparison = explain_methods(policy.resolve(facts), "write", "~/.ssh/id_rsa")
    comparison.answer.allowed, [(row.method, row.decision, row.status) for row in comparison.rows]
"""
