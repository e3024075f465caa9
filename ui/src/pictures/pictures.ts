// Which view has which picture.
import { View } from "../views";
import { memoryPicture } from "./memory";
import { Picture, ViewStage } from "./picture";
import { routingPicture } from "./routing";
import { sharesPicture } from "./shares";
import { speedOfLightPicture } from "./speed_of_light";
import { stepsPicture } from "./steps";

const PICTURES: { [view: string]: (stage: ViewStage, view: View) => Picture } = {
  steps: stepsPicture,
  routing: routingPicture,
  memory: memoryPicture,
  "counters-kernels": speedOfLightPicture,
};

export function pictureOf(view: View, stage: ViewStage): Picture {
  return (PICTURES[view.name] ?? sharesPicture)(stage, view);
}
