// Views that are not one table of the run.
import { TIMELINE } from "./address";
import { ComparePanel } from "./compare_panel";
import { FlamePanel } from "./flame_panel";
import { Panel } from "./panel";
import { Source } from "./source";
import { SqlPanel } from "./sql_panel";
import { OfflineTimeline } from "./timeline/offline";
import { TimelinePanel } from "./timeline/timeline_panel";

export interface OtherView {
  name: string;
  title: string;
  group: string; // of the navigation
  make(source: Source, run: string): Panel;
}

export const OTHER_VIEWS: OtherView[] = [
  { name: TIMELINE, title: "Timeline", group: "Time",
    make: (source, run) => source.live ? new TimelinePanel(source, run) : new OfflineTimeline(source, run) },
  { name: "flame", title: "Flame graph", group: "Time", make: (source, run) => new FlamePanel(source, run) },
  { name: "compare", title: "Compare", group: "Questions", make: (source, run) => new ComparePanel(source, run) },
  { name: "sql", title: "SQL", group: "Questions", make: (source, run) => new SqlPanel(source, run) },
];
