// The style sheet of pages (internal/document.h). Colours of categories are Okabe and Ito's and Tol's palettes, which
// colour-blind people can tell apart; in the dark they are lighter. Text has a contrast of at least 4.5.

#include "ptc/report/page/internal/document.h"

namespace scalai::report {

const char* style_sheet() {
  return R"(
:root{--bg:#fff;--fg:#1b1f24;--muted:#57606a;--rule:#d8dee4;--soft:#f3f5f7;--accent:#0066a8;--on:#fff;
--blue:#0072b2;--orange:#d55e00;--green:#117733;--pink:#b0568c;--gold:#b57a00;--sky:#2f8fc7;--grey:#8a939d;--black:#30363d;
--indigo:#5b4fa8;--teal:#2b8a7e;--olive:#8a8a2a;--rose:#c35564;--wine:#882255;--heat:0,102,168}
@media (prefers-color-scheme:dark){:root{--bg:#14171a;--fg:#e6e8ea;--muted:#a7afb8;--rule:#353c44;--soft:#1d2226;
--accent:#7ab8ec;--on:#0d1013;--blue:#5aa9e0;--orange:#f08a45;--green:#5cbf7a;--pink:#dd8fbf;--gold:#e0ac3c;--sky:#9ccbee;
--grey:#7d8791;--black:#c9d1d9;--indigo:#a59af0;--teal:#57c2b4;--olive:#c4c460;--rose:#ea8592;--wine:#d77aa8;--heat:70,135,190}}
*{box-sizing:border-box}
body{margin:0;background:var(--bg);color:var(--fg);font:16px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,sans-serif}
main{max-width:980px;margin:0 auto;padding:24px 20px 60px}
h1{font-size:1.55rem;line-height:1.25;margin:0 0 4px;font-weight:650;overflow-wrap:anywhere}
h2{font-size:1.2rem;margin:44px 0 6px;padding-top:14px;border-top:1px solid var(--rule);font-weight:650}
h3{font-size:1.02rem;margin:26px 0 4px;font-weight:650}
.title{font-size:.95rem;margin:0 0 6px;font-weight:600}
p{margin:6px 0 10px;max-width:72ch;overflow-wrap:anywhere}
.sub{color:var(--muted);font-size:.9rem}
.lead{font-size:1.12rem;font-weight:600;margin:12px 0 6px}
ul.verdict{margin:0 0 14px;padding-left:20px;overflow-wrap:anywhere}
ul.verdict li{margin:3px 0;max-width:80ch}
ul.notes{color:var(--muted);font-size:.9rem;padding-left:20px;overflow-wrap:anywhere}
figure{margin:16px 0 24px;padding:0}
figcaption{color:var(--muted);font-size:.87rem;max-width:80ch;margin-top:4px;overflow-wrap:anywhere}
svg{display:block;width:100%;height:auto;font:12px system-ui,-apple-system,"Segoe UI",Roboto,sans-serif}
svg.defs{position:absolute;width:0;height:0}
.narrow{display:none;max-width:560px}
.legend{list-style:none;display:flex;flex-wrap:wrap;gap:2px 16px;margin:0 0 6px;padding:0;font-size:.85rem}
.legend li{overflow-wrap:anywhere}
.swatch{display:inline-block;width:12px;height:12px;margin-right:6px;vertical-align:-1px;background:var(--c)}
.swatch.hatched{background:repeating-linear-gradient(45deg,var(--c) 0 3px,var(--bg) 3px 4.5px)}
.stroke{display:inline-block;width:18px;height:0;margin-right:6px;vertical-align:4px;border-top:3px solid var(--c)}
.scroll{overflow-x:auto;max-width:100%}
table{border-collapse:collapse;font-size:.87rem;margin:6px 0 10px}
th,td{padding:3px 12px 3px 0;text-align:left;vertical-align:top;border-bottom:1px solid var(--rule);white-space:nowrap}
td{font-variant-numeric:tabular-nums}
td.w{white-space:normal;min-width:26ch;max-width:52ch;overflow-wrap:anywhere}
th{font-weight:600}
.r{text-align:right}
details{margin:4px 0 8px;font-size:.9rem}
summary{cursor:pointer;color:var(--accent)}
pre{overflow-x:auto;background:var(--soft);padding:12px;font-size:.8rem;line-height:1.4;max-width:100%}
:focus-visible{outline:2px solid var(--accent);outline-offset:2px}
text{fill:var(--fg)}.tick{fill:var(--muted)}.in{fill:var(--on);font-size:11.5px}
.grid{stroke:var(--rule);stroke-width:1}
.seg{fill:var(--c);stroke:var(--bg);stroke-width:.5}
.hatch{fill:url(#hatch);pointer-events:none}.hatchline{stroke:var(--bg);stroke-width:2.4}
.line{fill:none;stroke:var(--c);stroke-width:1.8;stroke-linejoin:round}
.area{fill:var(--c);opacity:.22}
.dot{fill:var(--c)}.whisker{stroke:var(--c);stroke-width:1.6;opacity:.75}
.mark{fill:none;stroke:var(--fg);stroke-width:1.6}.mark.event{stroke:var(--muted);stroke-width:1;stroke-dasharray:2 3}
.mark.loss{stroke:var(--orange);stroke-width:1.2;stroke-dasharray:4 3}
.cell{stroke:var(--rule);stroke-width:.5}
.h0{fill:transparent}.h1{fill:rgba(var(--heat),.1)}.h2{fill:rgba(var(--heat),.18)}.h3{fill:rgba(var(--heat),.26)}
.h4{fill:rgba(var(--heat),.34)}.h5{fill:rgba(var(--heat),.42)}.h6{fill:rgba(var(--heat),.5)}.h7{fill:rgba(var(--heat),.58)}
.h8{fill:rgba(var(--heat),.66)}
.k-train,.k1{--c:var(--blue)}.k-pause,.k2{--c:var(--orange)}.k-wait{--c:var(--grey)}.k-again{--c:var(--pink)}
.k-cut{--c:var(--gold)}.k-snap{--c:var(--teal)}
.k3{--c:var(--green)}.k4{--c:var(--pink)}.k5{--c:var(--gold)}.k6{--c:var(--indigo)}.k7{--c:var(--wine)}.k8{--c:var(--black)}
.line.k2,.line.k6{stroke-dasharray:7 3}.line.k3,.line.k7{stroke-dasharray:3 2}.line.k4,.line.k8{stroke-dasharray:9 3 2 3}
.stroke.k2,.stroke.k6{border-top-style:dashed}.stroke.k3,.stroke.k7{border-top-style:dotted}
.k-detect{--c:var(--sky)}.k-stop{--c:var(--gold)}.k-plan{--c:var(--indigo)}.k-restart{--c:var(--rose)}
.k-prepare{--c:var(--olive)}.k-transfer{--c:var(--blue)}.k-verify{--c:var(--teal)}.k-resume{--c:var(--green)}
.k-aborted{--c:var(--wine)}.k-same{--c:var(--sky)}.k-cross{--c:var(--blue)}.k-storage{--c:var(--gold)}
@media (max-width:760px){main{padding:16px 16px 40px}.wide{display:none}.narrow{display:block}body{font-size:15px}}
@media print{:root{--bg:#fff;--fg:#000;--muted:#444;--rule:#bbb;--on:#fff}main{max-width:none;padding:0}
figure svg,tr,ul{break-inside:avoid}h1,h2,h3,.title,.legend,summary{break-after:avoid}table{font-size:.72rem}th,td{white-space:normal;padding-right:8px}.scroll,pre{overflow:visible;white-space:pre-wrap}.wide{display:block}.narrow{display:none}
details::details-content{content-visibility:visible;height:auto;display:block}*{print-color-adjust:exact;-webkit-print-color-adjust:exact}}
)";
}

}  // namespace scalai::report
