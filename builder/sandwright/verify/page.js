"use strict";
// Hides probes that the reader did not ask for. Everything can be read without it.
(() => {
  const form = document.getElementById("filter");
  const count = document.getElementById("count");
  const families = [...document.querySelectorAll(".family")];
  const first = new Map(families.map((family) => [family, family.open]));
  const probes = [...document.querySelectorAll(".probe")].map((element) => ({
    element,
    family: element.closest(".family"),
    text: element.textContent.toLowerCase(),
    verdicts: element.dataset.verdicts.split(" "),
    differs: "differs" in element.dataset,
  }));

  function wanted(probe, words, verdicts, differing) {
    return (!differing || probe.differs)
      && probe.verdicts.some((verdict) => verdicts.has(verdict))
      && words.every((word) => probe.text.includes(word));
  }

  function apply() {
    const words = form.elements.text.value.toLowerCase().split(/\s+/).filter(Boolean);
    const boxes = [...form.querySelectorAll("input[name=verdict]")];
    const verdicts = new Set(boxes.filter((box) => box.checked).map((box) => box.value));
    const differing = form.elements.differing.checked;
    const filtered = words.length > 0 || differing || verdicts.size < boxes.length;
    const shown = new Set();
    for (const probe of probes) {
      probe.element.hidden = !wanted(probe, words, verdicts, differing);
      if (!probe.element.hidden) shown.add(probe);
    }
    for (const family of families) {
      family.hidden = ![...shown].some((probe) => probe.family === family);
      family.open = filtered || first.get(family);
    }
    count.textContent = `${shown.size} of ${probes.length} probes`;
  }

  form.hidden = false;
  form.addEventListener("input", apply);
  form.addEventListener("submit", (event) => event.preventDefault());
  apply();
})();
