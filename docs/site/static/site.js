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
    const small = new Set("a an and by from in into my of one only the their to with".split(" "));
    const stem = (word) => (word.length > 4 ? word.replace(/(isation|ization|ising|izing|ise|ize|ing|ed|es|s)$/, "") : word);
    const show = () => {
      const words = filter.value.toLowerCase().split(/\W+/).filter((word) => word && !small.has(word)).map(stem);
      const found = wishes.map((wish) => words.filter((word) => wish.textContent.toLowerCase().includes(word)).length);
      const most = Math.max(...found);
      wishes.forEach((wish, k) => (wish.hidden = words.length > 0 && (most === 0 || found[k] < most)));
      const shown = wishes.filter((wish) => !wish.hidden).length;
      const some = most > 0 && most < words.length ? "; none has all these words" : "";
      count.textContent = `${shown} of ${wishes.length} wishes${some}`;
    };
    filter.addEventListener("input", show);
    show();
  }
});
