"use strict";
document.documentElement.classList.add("js");
for (const link of document.querySelectorAll("[data-toggle]")) {
  const target = document.getElementById((link.getAttribute("href") || "").slice(1));
  if (!target) continue;
  link.addEventListener("click", (event) => {
    event.preventDefault();
    if (link.dataset.toggle === "collapse") {
      link.setAttribute("aria-expanded", String(target.classList.toggle("show")));
    } else if (link.dataset.toggle === "tab") {
      const tabs = link.closest(".nav-tabs");
      for (const other of tabs.querySelectorAll(".nav-link")) {
        other.classList.toggle("active", other === link);
        other.setAttribute("aria-selected", String(other === link));
        document.getElementById(other.getAttribute("href").slice(1)).classList.toggle("active", other === link);
      }
    }
  });
}
for (const row of document.querySelectorAll("main tr")) {
  if (row.querySelector(".ge-success-icon, .fa-check-circle")) row.classList.add("met");
}
const only = document.getElementById("failed-only");
if (only) only.addEventListener("change", () => document.body.classList.toggle("failed-only", only.checked));
document.documentElement.dataset.ready = "yes";
