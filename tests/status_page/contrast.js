// The smallest contrast of a text with what is painted behind it, by WCAG 2.2, and where that is.
(() => {
  const parts = (colour) => colour.match(/[\d.]+/g).map(Number);
  const linear = (v) => (v / 255 <= 0.04045 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4);
  const light = ([r, g, b]) => 0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b);
  const behind = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const found = parts(getComputedStyle(at).backgroundColor);
      if (found.length < 4 || found[3] > 0) return found;
    }
    return [255, 255, 255];
  };
  let worst = [21, ""];
  for (const element of document.querySelectorAll("body *")) {
    const speaks = [...element.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim());
    if (!speaks || !element.getClientRects().length) continue;
    const [a, b] = [light(parts(getComputedStyle(element).color)), light(behind(element))];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < worst[0]) worst = [ratio, `${element.className}: ${element.textContent.slice(0, 40)}`];
  }
  return worst;
})()
