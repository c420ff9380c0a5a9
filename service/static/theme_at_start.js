// Before the first paint: the colours that this browser remembers. Dark without a choice.
try {
  document.documentElement.dataset.theme = localStorage.getItem("theme") === "light" ? "light" : "dark";
} catch {
  document.documentElement.dataset.theme = "dark"; // storage is disabled
}
