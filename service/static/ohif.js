// Extension of OHIF 3: a panel with images similar to those in the active viewport.
// OHIF imports this file when it starts, without a build: copy it beside OHIF's index.html, since OHIF shows nothing if
// an extension cannot be loaded, and name it in its configuration as "/ohif.js?service=ADDRESS", the address of this service.

const SERVICE = new URL(import.meta.url).searchParams.get("service");
// A dark frame asks its page for dark colours.
const STYLE = { width: "100%", height: "100%", border: 0, colorScheme: "dark" };

/** Return the address of the page of images similar to the series in the active viewport, or null if it is empty. */
export function addressOf(services, service = SERVICE) {
  const { viewportGridService, displaySetService } = services;
  const { activeViewportId, viewports } = viewportGridService.getState();
  const [uid] = viewports.get(activeViewportId)?.displaySetInstanceUIDs ?? [];
  const shown = uid && displaySetService.getDisplaySetByUID(uid);
  if (!shown?.StudyInstanceUID || !shown.SeriesInstanceUID) return null;
  const query = new URLSearchParams({ study: shown.StudyInstanceUID, series: shown.SeriesInstanceUID });
  return `${service}/similar?${query}`;
}

/** Return a function that React calls with the frame, and with null when the panel closes. */
export function follow(services, service = SERVICE) {
  let subscriptions = [];
  return (frame) => {
    for (const each of subscriptions) each.unsubscribe();
    subscriptions = [];
    if (!frame) return;
    const grid = services.viewportGridService;
    const show = () => {
      const address = addressOf(services, service);
      if (address && frame.src !== address) frame.src = address;
    };
    const { ACTIVE_VIEWPORT_ID_CHANGED, GRID_STATE_CHANGED } = grid.EVENTS;
    subscriptions = [ACTIVE_VIEWPORT_ID_CHANGED, GRID_STATE_CHANGED].map((event) => grid.subscribe(event, show));
    show();
  };
}

// OHIF 3.8 to 3.13 do not share React with such extensions: this is what React 18's createElement returns.
const frameElement = (ref) => ({ $$typeof: Symbol.for("react.element"), type: "iframe", key: null, ref, props: { title: "Similar images", style: STYLE }, _owner: null });

export default {
  id: "cbir",
  getPanelModule({ servicesManager }) {
    const ref = follow(servicesManager.services);
    return [{ name: "similar", iconName: "tab-studies", iconLabel: "Similar", label: "Similar", component: () => frameElement(ref) }];
  },
};
