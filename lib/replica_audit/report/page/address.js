// What is looked at, in the address, so that a link and a reload show the same: #orders-0&q=broker%202&verdict=LAGGING
function readAddress() {
  const decode = (text) => { try { return decodeURIComponent(text); } catch { return ''; } };
  const parts = location.hash.slice(1).split('&').filter(Boolean);
  const values = Object.fromEntries(parts.filter((part) => part.includes('=')).map((part) => {
    const place = part.indexOf('=');
    return [decode(part.slice(0, place)), decode(part.slice(place + 1))];
  }));
  return { name: decode(parts.find((part) => !part.includes('=')) || ''), values };
}

// Without a step in the browser's history: nobody wants to go back letter by letter.
function writeAddress(name, values) {
  const parts = Object.entries(values).filter(([, value]) => value !== null && value !== '').map(([key, value]) => `${key}=${encodeURIComponent(value)}`);
  const hash = [...(name ? [encodeURIComponent(name)] : []), ...parts].join('&');
  if (hash !== location.hash.slice(1)) history.replaceState(null, '', hash ? `#${hash}` : location.href.split('#')[0]);
}
