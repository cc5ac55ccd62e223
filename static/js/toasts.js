// Short notices that say what just happened. One with the same words is not shown again while the first is there.

const LINGER_MS = 8000;

function arm(toast) {
  const close = toast.querySelector("[data-dismiss]");
  close.hidden = false;
  close.addEventListener("click", () => toast.remove());
  if (!toast.classList.contains("error")) {
    let left = setTimeout(() => toast.remove(), LINGER_MS);
    toast.addEventListener("pointerenter", () => clearTimeout(left));
    toast.addEventListener("pointerleave", () => { left = setTimeout(() => toast.remove(), LINGER_MS); });
  }
}

export function adoptToasts() {
  document.querySelectorAll("[data-toast]").forEach(arm);
}

export function toast(words, level = "info") {
  const tray = document.querySelector(".toasts");
  const shown = [...tray.querySelectorAll("p")].some((p) => p.textContent === words);
  if (shown) return;
  const box = document.createElement("div");
  box.className = `toast ${level}`;
  const text = document.createElement("p");
  text.textContent = words;
  const close = document.createElement("button");
  close.type = "button";
  close.className = "plain";
  close.dataset.dismiss = "";
  close.textContent = "Dismiss";
  box.append(text, close);
  tray.append(box);
  arm(box);
}
