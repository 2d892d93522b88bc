//! Draws lines over sizes, both axes logarithmic, as an SVG file.

use std::path::Path;

use anyhow::anyhow;
use plotters::prelude::*;
use plotters::series::LineSeries;

/// Width and height in pixels.
const SIZE: (u32, u32) = (900, 480);

pub(super) struct Line<'a> {
    pub(super) title: &'a str,
    /// Sizes, and a figure at each.
    pub(super) points: Vec<(f64, f64)>,
}

/// Draws all lines into one file.
///
/// # Errors
/// When the file cannot be written.
pub(super) fn draw(file: &Path, lines: &[Line<'_>]) -> anyhow::Result<()> {
    draw_into(file, lines).map_err(|error| anyhow!("{}: {error}", file.display()))
}

fn draw_into(file: &Path, lines: &[Line<'_>]) -> Result<(), Box<dyn std::error::Error>> {
    let points = || lines.iter().flat_map(|line| &line.points);
    let most = points().map(|point| point.0).fold(1.0, f64::max);
    let least_growth = points().map(|point| point.1).fold(1.0, f64::min);
    let growth = points().map(|point| point.1).fold(1.0, f64::max);
    let area = SVGBackend::new(file, SIZE).into_drawing_area();
    area.fill(&WHITE)?;
    let heights = (least_growth / 2.0)..(growth * 2.0);
    let mut chart = ChartBuilder::on(&area)
        .margin(12)
        .x_label_area_size(40)
        .y_label_area_size(60)
        .build_cartesian_2d((1.0..most).log_scale(), heights.log_scale())?;
    chart
        .configure_mesh()
        .x_desc("size")
        .y_desc("cost of a unit of work, at the smallest size = 1")
        .draw()?;
    for (number, line) in lines.iter().enumerate() {
        let colour = Palette99::pick(number).to_rgba();
        let series = LineSeries::new(line.points.iter().copied(), colour.stroke_width(2));
        chart
            .draw_series(series.point_size(3))?
            .label(line.title)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 16, y)], colour.stroke_width(2)));
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::LowerLeft)
        .background_style(WHITE)
        .border_style(BLACK.mix(0.3))
        .draw()?;
    area.present()?;
    Ok(())
}
