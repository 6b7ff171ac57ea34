// Before anything is painted: the theme that was chosen last time, so that a dark page does not begin with a white flash.
try {
  document.documentElement.dataset.theme = localStorage.getItem('causeway-theme') || 'auto';
} catch {
  // Storage is switched off: the system's theme it is.
}
