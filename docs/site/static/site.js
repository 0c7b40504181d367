"use strict";
// The version switcher, and the filter of the wish index.
document.addEventListener("DOMContentLoaded", () => {
  const select = document.getElementById("site-version");
  const versions = window.siteVersions || [];
  if (select && versions.length) {
    select.replaceChildren(...versions.map((name) => new Option(name, name, false, name === select.dataset.version)));
    select.addEventListener("change", () => {
      window.location.href = `${select.dataset.root}../${select.value}/${select.dataset.page}`;
    });
  }
  const filter = document.getElementById("wish-filter");
  if (filter) {
    const wishes = [...document.querySelectorAll("li.wish")];
    const count = document.getElementById("wish-count");
    const show = () => {
      const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
      let shown = 0;
      for (const wish of wishes) {
        const text = wish.textContent.toLowerCase();
        wish.hidden = !words.every((word) => text.includes(word));
        shown += wish.hidden ? 0 : 1;
      }
      count.textContent = `${shown} of ${wishes.length} wishes`;
    };
    filter.addEventListener("input", show);
    show();
  }
});
