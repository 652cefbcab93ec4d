// Mounts the page's components. The page loads this module before Gradio's own script (web/ui/modules.py), so that
// `window.reprise` is there when Gradio runs the components' `js_on_load` (web/ui/components.py).

import * as changeBroadcast from "./connection/change_broadcast.js";
import * as connection from "./connection/connection.js";
import { marks } from "./connection/marks.js";
import * as owner from "./connection/owner.js";
import { answers, connect } from "./connection/server.js";
import { uploadFile } from "./connection/upload.js";
import { arrive } from "./draft/deep_links.js";
import { draft, fillIn, keepDraft, keepTab, openIfChanged, opening } from "./draft/page_draft.js";
import * as historyList from "./history/history.js";
import * as library from "./library/library.js";
import * as pictures from "./library/pictures.js";
import * as changedVoice from "./new_voice/changed_voice.js";
import { interrupted, showNotice } from "./new_voice/form_notice.js";
import * as recorder from "./new_voice/recorder.js";
import * as savedVoice from "./new_voice/saved_voice.js";
import { clearSent, endSaving, saveOneAtATime, sendForm } from "./new_voice/sent_form.js";
import * as player from "./player/player.js";
import * as scriptEditor from "./script/script_editor.js";
import { beginSpeaking } from "./speak/begin.js";
import * as takes from "./speak/takes/takes.js";
import { beginWriting } from "./speak/text_field.js";
import * as voiceCard from "./speak/voices/voice_card.js";
import * as writing from "./speak/writing.js";
import * as dictionary from "./shell/dictionary.js";
import { refuseFiles } from "./shell/file_drops.js";
import * as recogniser from "./shell/recogniser.js";
import { endStatusTimers } from "./shell/status_timers.js";
import * as switches from "./shell/switches.js";
import { begin } from "./shell/switches.js";
import * as welcome from "./shell/welcome.js";
import * as voiceRail from "./speak/voices/voice_rail.js";
import * as checker from "./status/checker.js";
import * as status from "./status/status.js";
import { describeAccordions, focusWhenShown, listen, nameOverflow } from "./ui/keyboard.js";
import { closeFromOutside, keepInPage } from "./ui/menus.js";
import { deletionFailed } from "./ui/undo.js";
import { translate } from "./ui/words.js";

// By the path of their markup, or of their module if there is no markup.
const COMPONENTS = {
  "connection/change_broadcast": changeBroadcast,
  "connection/connection": connection,
  "connection/owner": owner,
  "history/history": historyList,
  "library/library": library,
  "library/pictures": pictures,
  "new_voice/changed_voice": changedVoice,
  "new_voice/recorder": recorder,
  "new_voice/saved_voice": savedVoice,
  "player/player": player,
  "script/script_editor": scriptEditor,
  "speak/takes/takes": takes,
  "shell/dictionary": dictionary,
  "shell/recogniser": recogniser,
  "shell/switches": switches,
  "shell/welcome": welcome,
  "speak/voices/voice_card": voiceCard,
  "speak/voices/voice_rail": voiceRail,
  "speak/writing": writing,
  "status/checker": checker,
  "status/status": status,
};

endStatusTimers();
listen();
nameOverflow();
closeFromOutside();
keepInPage();
refuseFiles();
saveOneAtATime();
begin();
arrive();

connect();

// component: the values that Gradio passes to a component's script: { element, trigger, props, server, upload, watch }.
window.reprise = {
  answers,
  beginSpeaking,
  beginWriting,
  clearSent,
  deletionsFailed(id) {
    deletionFailed(document.getElementById(id));
    document.dispatchEvent(new CustomEvent("reprise:refused"));
  },
  draft,
  endSaving,
  fillIn,
  focusWhenShown,
  interrupted,
  keepDraft,
  keepTab,
  marks,
  openIfChanged,
  opening,
  sendForm,
  showNotice,
  mount(name, component) {
    document.documentElement.toggleAttribute("data-rp-mounted", true); // the page's name is shown until now (web/ui/modules.py)
    translate(component.element);
    COMPONENTS[name].mount({ ...component, upload: uploadFile });
    setTimeout(describeAccordions);
  },
};
