// The page after a login in a tab of its own: tells the tab that waits for it, and closes.

const tabs = new BroadcastChannel("cbir-login");
tabs.postMessage("logged in");
window.close(); // browsers allow it for a tab without a history; else the text says what to do
