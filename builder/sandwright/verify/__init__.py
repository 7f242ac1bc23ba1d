"""The prover: starts sandboxes with probes in them, and judges the results.

It has four probe sets, which share verdicts (`verdict`), reports (`junit`), canary listeners (`canary`), and
the runtimes and the probe program of `sandwright.runtime`:

- the probes of policies, in the modules beside this one: `prove` proves one method, `matrix` several,
  `catalogue` holds the probes; the expected results are written by hand and never taken from a renderer;
- `work`: common tasks in a project, with real programs, in the same matrix and report;
- `smoke`: the checks of images, under every runtime;
- `mapping`: the user that an image with `config.init` runs as.

A *probe* is one or more attempts with the result that each must have, and controls that must succeed in the
same sandbox.
"""
