//! Figures as SVG and PNG: grouped bars, and lines.
//!
//! The layout is computed here in pixels and painted with shapes that both formats have. The font is built into the
//! program, so that a figure does not depend on installed fonts.

use std::path::{Path, PathBuf};

use anyhow::{Result, anyhow};
use plotters::coord::Shift;
use plotters::element::DashedPathElement;
use plotters::prelude::*;
use plotters::style::register_font;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use crate::files;
use crate::scale::{AxisScale, number};

/// Returns the SVG path and the PNG path of a figure.
pub(crate) fn both(dir: &Path, name: &str) -> [PathBuf; 2] {
    ["svg", "png"].map(|format| dir.join(format!("{name}.{format}")))
}

/// A figure: bars or lines with a title, an axis and a legend.
pub(crate) struct Figure {
    /// Three lines: subject, data, and machine.
    pub(crate) title: [String; 3],
    /// Label of the horizontal axis.
    pub(crate) axis: String,
    /// Names of the series, in the order of their colours.
    pub(crate) series: Vec<String>,
    /// Bars or lines.
    pub(crate) content: FigureContent,
}

/// Content of a figure.
pub(crate) enum FigureContent {
    Bars(BarChart),
    Lines(LineChart),
}

/// Horizontal bars in groups.
pub(crate) struct BarChart {
    pub(crate) groups: Vec<BarGroup>,
    /// Value to mark with a line, and the label of the mark.
    pub(crate) mark: Option<(f64, &'static str)>,
    pub(crate) scale: AxisScale,
}

/// A named group of bars.
pub(crate) struct BarGroup {
    pub(crate) name: String,
    /// Series number and value of each bar.
    pub(crate) bars: Vec<(usize, f64)>,
}

/// A line for each series. The vertical axis goes from 0 to 100 %.
pub(crate) struct LineChart {
    /// The points of each series.
    pub(crate) lines: Vec<Vec<(f64, f64)>>,
    pub(crate) scale: AxisScale,
}

impl Figure {
    /// Writes the figure to `files`: SVG, then PNG.
    pub(crate) fn save(&self, files: &[PathBuf; 2]) -> Result<()> {
        self.save_svg(&files[0])?;
        let size = (WIDTH as u32, self.height() as u32);
        let size = (size.0 * PNG_ZOOM as u32, size.1 * PNG_ZOOM as u32);
        let mut pixels = vec![0; size.0 as usize * size.1 as usize * 3];
        self.paint(BitMapBackend::with_buffer(&mut pixels, size), PNG_ZOOM)?;
        files::write(&files[1], &png(size.0, size.1, &pixels)?)
    }

    /// Writes the figure as SVG.
    pub(crate) fn save_svg(&self, file: &Path) -> Result<()> {
        let size = (WIDTH as u32, self.height() as u32);
        let font = register_font(FONT, FontStyle::Normal, notosans::REGULAR_TTF);
        font.map_err(|_| anyhow!("the font of the program is damaged"))?;
        let mut svg = String::new();
        self.paint(SVGBackend::with_string(&mut svg, size), 1)?;
        files::write(file, svg.as_bytes())
    }

    fn height(&self) -> i32 {
        let plot = match &self.content {
            FigureContent::Bars(bars) => bars.height(),
            FigureContent::Lines(_) => LINES_HEIGHT,
        };
        TOP + plot + BOTTOM
    }

    fn paint<B: DrawingBackend>(&self, backend: B, zoom: i32) -> Result<()> {
        let canvas = Canvas { area: backend.into_drawing_area(), zoom };
        canvas.with_draw_context(canvas.area.fill(&WHITE))?;
        let [what, data, machine] = &self.title;
        canvas.text(what, (MARGIN, 28), (22, INK), HPos::Left)?;
        canvas.text(data, (MARGIN, 54), (14, FAINT), HPos::Left)?;
        canvas.text(machine, (MARGIN, 74), (14, FAINT), HPos::Left)?;
        match &self.content {
            FigureContent::Bars(bars) => bars.paint(self, &canvas)?,
            FigureContent::Lines(lines) => lines.paint(self, &canvas)?,
        }
        canvas.with_draw_context(canvas.area.present())
    }

    /// Paints the names of the series with their colours, side by side.
    fn legend<B: DrawingBackend>(&self, canvas: &Canvas<B>, left: i32) -> Result<()> {
        let mut x = left;
        for (at, name) in self.series.iter().enumerate() {
            canvas.rect([(x, LEGEND - 6), (x + 14, LEGEND + 6)], shade(at, self.series.len()))?;
            canvas.text(name, (x + 20, LEGEND), (14, INK), HPos::Left)?;
            x += 48 + canvas.width(name, 14)?;
        }
        Ok(())
    }

    /// Paints the horizontal axis and its grid lines.
    fn axis<B: DrawingBackend>(
        &self,
        canvas: &Canvas<B>,
        scale: &AxisScale,
        frame: PlotFrame,
    ) -> Result<()> {
        for (value, label) in &scale.ticks {
            let x = frame.x(scale.at(*value));
            let colour = if label.is_some() { GRID } else { FINE_GRID };
            canvas.line(vec![(x, frame.top), (x, frame.bottom)], colour, 1)?;
            if let Some(label) = label {
                canvas.text(label, (x, frame.bottom + 14), (13, INK), HPos::Center)?;
            }
        }
        let middle = (frame.left + frame.right) / 2;
        canvas.text(&self.axis, (middle, frame.bottom + 38), (14, INK), HPos::Center)
    }
}

impl BarChart {
    fn height(&self) -> i32 {
        self.groups.iter().map(|group| group.bars.len() as i32 * BAR + GAP).sum::<i32>() + GAP
    }

    fn paint<B: DrawingBackend>(&self, figure: &Figure, canvas: &Canvas<B>) -> Result<()> {
        let names = self.groups.iter().map(|group| canvas.width(&group.name, 15));
        let widest = names.collect::<Result<Vec<_>>>()?.into_iter().max().unwrap_or(0);
        let frame = PlotFrame {
            left: MARGIN + widest + 12,
            right: WIDTH - MARGIN - VALUE_WIDTH,
            top: TOP,
            bottom: TOP + self.height(),
        };
        figure.legend(canvas, frame.left)?;
        figure.axis(canvas, &self.scale, frame)?;
        if let Some((value, name)) = self.mark {
            let x = frame.x(self.scale.at(value));
            canvas.dashed(vec![(x, frame.top - 4), (x, frame.bottom)], MARK, 1)?;
            canvas.text(name, (x, frame.top - 12), (13, MARK), HPos::Center)?;
        }
        let mut y = TOP + GAP;
        for group in &self.groups {
            let height = group.bars.len() as i32 * BAR;
            canvas.text(&group.name, (frame.left - 10, y + height / 2), (15, INK), HPos::Right)?;
            for (series, value) in &group.bars {
                let end = frame.x(self.scale.at(*value));
                let colour = shade(*series, figure.series.len());
                canvas
                    .rect([(frame.left, y + 1), (end.max(frame.left + 1), y + BAR - 1)], colour)?;
                let (value, x, middle) = (number(*value), end + 6, y + BAR / 2);
                let width = canvas.width(&value, 13)?;
                canvas.rect([(x - 2, middle - 8), (x + width + 2, middle + 8)], WHITE)?;
                canvas.text(&value, (x, middle), (13, INK), HPos::Left)?;
                y += BAR;
            }
            y += GAP;
        }
        canvas.line(vec![(frame.left, frame.top), (frame.left, frame.bottom)], INK, 1)?;
        Ok(())
    }
}

impl LineChart {
    fn paint<B: DrawingBackend>(&self, figure: &Figure, canvas: &Canvas<B>) -> Result<()> {
        let names = figure.series.iter().map(|name| canvas.width(name, 14));
        let widest = names.collect::<Result<Vec<_>>>()?.into_iter().max().unwrap_or(0);
        let right = WIDTH - MARGIN - widest - 70;
        let frame =
            PlotFrame { left: MARGIN + 44, right, top: TOP - 30, bottom: TOP + LINES_HEIGHT };
        figure.axis(canvas, &self.scale, frame)?;
        for percent in (0..=100).step_by(20) {
            let y = frame.y(f64::from(percent));
            canvas.line(vec![(frame.left, y), (frame.right, y)], GRID, 1)?;
            let label = format!("{percent} %");
            canvas.text(&label, (frame.left - 8, y), (13, INK), HPos::Right)?;
        }
        for (at, (name, points)) in figure.series.iter().zip(&self.lines).enumerate() {
            let place = |(x, y): &(f64, f64)| (frame.x(self.scale.at(*x)), frame.y(*y));
            canvas.series(points.iter().map(place).collect(), at)?;
            let y = frame.top + 12 + at as i32 * 24;
            canvas.series(vec![(frame.right + 16, y), (frame.right + 48, y)], at)?;
            canvas.text(name, (frame.right + 56, y), (14, INK), HPos::Left)?;
        }
        Ok(())
    }
}

/// The plot area in pixels.
#[derive(Clone, Copy)]
struct PlotFrame {
    left: i32,
    right: i32,
    top: i32,
    bottom: i32,
}

impl PlotFrame {
    /// Returns the column of a position on an axis of length 1.
    fn x(self, place: f64) -> i32 {
        self.left + (f64::from(self.right - self.left) * place).round() as i32
    }

    /// Returns the row of a percentage.
    fn y(self, percent: f64) -> i32 {
        self.bottom - (f64::from(self.bottom - self.top) * percent / 100.0).round() as i32
    }
}

/// A point of the layout in pixels: column and row.
type Point = (i32, i32);

/// A drawing area of either format.
struct Canvas<B: DrawingBackend> {
    area: DrawingArea<B, Shift>,
    /// Pixels of the area for each pixel of the layout.
    zoom: i32,
}

impl<B: DrawingBackend> Canvas<B> {
    /// Draws a line of text at `place`, vertically centred and horizontally aligned to `side`.
    fn text(
        &self,
        text: &str,
        place: Point,
        (size, colour): (i32, RGBColor),
        side: HPos,
    ) -> Result<()> {
        let font = (FONT, size * self.zoom).into_font();
        let style = font.color(&colour).pos(Pos::new(side, VPos::Center));
        self.with_draw_context(self.area.draw_text(text, &style, self.zoomed(place)))
    }

    fn width(&self, text: &str, size: i32) -> Result<i32> {
        let style = TextStyle::from((FONT, size * self.zoom).into_font());
        let size = self.area.estimate_text_size(text, &style);
        Ok(size.map_err(|error| anyhow!("draw {text:?}: {error}"))?.0 as i32 / self.zoom)
    }

    fn rect(&self, corners: [Point; 2], colour: RGBColor) -> Result<()> {
        let corners = corners.map(|corner| self.zoomed(corner));
        self.with_draw_context(self.area.draw(&Rectangle::new(corners, colour.filled())))
    }

    fn line(&self, points: Vec<Point>, colour: RGBColor, width: u32) -> Result<()> {
        let points: Vec<_> = points.into_iter().map(|point| self.zoomed(point)).collect();
        let style = colour.stroke_width(width * self.zoom as u32);
        self.with_draw_context(self.area.draw(&PathElement::new(points, style)))
    }

    fn dashed(&self, points: Vec<Point>, colour: RGBColor, width: u32) -> Result<()> {
        let points = points.into_iter().map(|point| self.zoomed(point)).collect::<Vec<_>>();
        let style = colour.stroke_width(width * self.zoom as u32);
        let (dash, gap) = self.zoomed((6, 4));
        self.with_draw_context(self.area.draw(&DashedPathElement::new(points, dash, gap, style)))
    }

    fn zoomed(&self, (x, y): Point) -> Point {
        (x * self.zoom, y * self.zoom)
    }

    /// Draws the line of a series. After the last colour, colours repeat with dashed lines.
    fn series(&self, points: Vec<Point>, at: usize) -> Result<()> {
        let colour = COLOURS[at % COLOURS.len()];
        if at < COLOURS.len() {
            self.line(points, colour, 2)
        } else {
            self.dashed(points, colour, 2)
        }
    }

    fn with_draw_context<E: std::fmt::Display>(
        &self,
        result: std::result::Result<(), E>,
    ) -> Result<()> {
        result.map_err(|error| anyhow!("draw a figure: {error}"))
    }
}

fn png(width: u32, height: u32, pixels: &[u8]) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut encoder = png::Encoder::new(&mut bytes, width, height);
    encoder.set_color(png::ColorType::Rgb);
    let mut writer = encoder.write_header()?;
    writer.write_image_data(pixels)?;
    writer.finish()?;
    Ok(bytes)
}

/// Returns the colour of series `at` of `all`, from light to dark.
fn shade(at: usize, all: usize) -> RGBColor {
    let share = if all > 1 { at as f64 / (all - 1) as f64 } else { 1.0 };
    let mix =
        |from: u8, to: u8| (f64::from(from) + (f64::from(to) - f64::from(from)) * share) as u8;
    RGBColor(mix(LIGHT.0, DARK.0), mix(LIGHT.1, DARK.1), mix(LIGHT.2, DARK.2))
}

const FONT: &str = "sans-serif";
/// Width of all figures in pixels.
const WIDTH: i32 = 1200;
/// Pixels of a PNG for each pixel of the layout.
const PNG_ZOOM: i32 = 2;
const MARGIN: i32 = 24;
/// Height above a plot: titles, legend, label of a mark.
const TOP: i32 = 150;
const LEGEND: i32 = 104;
/// Height below a plot: the axis.
const BOTTOM: i32 = 64;
const LINES_HEIGHT: i32 = 500;
const BAR: i32 = 20;
const GAP: i32 = 10;
/// Width for the value of the longest bar.
const VALUE_WIDTH: i32 = 56;

const INK: RGBColor = RGBColor(32, 36, 42);
const FAINT: RGBColor = RGBColor(96, 104, 114);
const GRID: RGBColor = RGBColor(208, 213, 219);
const FINE_GRID: RGBColor = RGBColor(236, 239, 242);
const MARK: RGBColor = RGBColor(190, 50, 40);
const LIGHT: RGBColor = RGBColor(158, 202, 225);
const DARK: RGBColor = RGBColor(8, 48, 107);
/// Colours that are distinguishable with most kinds of colour blindness.
const COLOURS: [RGBColor; 8] = [
    RGBColor(0, 0, 0),
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
    RGBColor(140, 86, 75),
];
