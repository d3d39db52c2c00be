// The parts of Apache ECharts that reports use; scripts/echarts.sh bundles them into echarts.min.js.
import {use} from "echarts/core";
import {BarChart, CustomChart, HeatmapChart, LineChart, ScatterChart} from "echarts/charts";
import {
  AriaComponent,
  DataZoomComponent,
  GridComponent,
  LegendComponent,
  MarkAreaComponent,
  MarkLineComponent,
  TitleComponent,
  ToolboxComponent,
  TooltipComponent,
  VisualMapComponent,
} from "echarts/components";
import {CanvasRenderer, SVGRenderer} from "echarts/renderers";

use([
  BarChart, CustomChart, HeatmapChart, LineChart, ScatterChart,
  AriaComponent, DataZoomComponent, GridComponent, LegendComponent, MarkAreaComponent, MarkLineComponent,
  TitleComponent, ToolboxComponent, TooltipComponent, VisualMapComponent,
  CanvasRenderer, SVGRenderer,
]);

export {connect, getInstanceByDom, graphic, init, version} from "echarts/core";
