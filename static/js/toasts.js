// Short notices that say what just happened. The server hands each out once; here they go by themselves.

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
