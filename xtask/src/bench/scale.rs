//! Measures costs at several sizes, as `scale.txt` says, and writes the results into
//! `docs/performance.md`, with a plot.

use std::fs;

use anyhow::{Context, bail};
use serde_json::Value;

use super::plot::{self, Line};
use super::row::{Limit, Row, compare, figure, median};
use super::server::Bench;

/// One series in each line.
const SCALE: &str = include_str!("scale.txt");

/// Measurements at each size, in turns with those at the others.
const ROUNDS: usize = 3;

/// The most that the cost of a unit of work may be of that at the smallest size.
const MAX_GROWTH: f64 = 1.25;

/// The page, and the comments around what is written here.
const PAGE: &str = "docs/performance.md";
const START: &str = "<!-- measured -->\n";
const END: &str = "<!-- end of what is measured -->\n";

/// The plot beside it.
const PLOT: &str = "docs/performance.svg";

/// The load before each measurement. A server of 10,000 tools works on its list for 200 ms after its start.
const WARM_UP_MILLIS: u32 = 500;
/// Small calls, alone and beside a client with answers of 4 MB.
const SMALL: &str = "http item --connections 8";
const BESIDE: &str = "http item --connections 8 --beside LARGE";

struct Series<'a> {
    title: &'a str,
    sizes: Vec<usize>,
    server: &'a str,
    load: &'a str,
    work: Work,
}

/// The work that the cost of a call is compared with.
#[derive(Clone, Copy)]
enum Work {
    Call,
    /// A byte of the answer.
    Byte,
}

struct Point {
    size: usize,
    per_second: f64,
    p50: f64,
    p99: f64,
    /// CPU time of a call in µs.
    cpu: f64,
    /// Bytes of an answer.
    bytes: f64,
    /// Memory of what is open beside, in KiB.
    idle: f64,
    /// The cost of a unit of work, relative to that at the smallest size.
    growth: f64,
}

impl<'a> Series<'a> {
    fn parse(line: &'a str) -> anyhow::Result<Self> {
        let cells: Vec<_> = line.split('|').map(str::trim).collect();
        let [title, sizes, server, load, work] = cells[..] else {
            bail!("a row has five cells: {line}");
        };
        Ok(Self {
            title,
            sizes: sizes.split(' ').map(str::parse).collect::<Result<_, _>>()?,
            server,
            load,
            work: match work {
                "call" => Work::Call,
                "byte" => Work::Byte,
                _ => bail!("no kind of work: {work}"),
            },
        })
    }

    fn measure(&self, bench: &Bench<'_>) -> anyhow::Result<Vec<Point>> {
        print_as!("bench", "{} …", self.title);
        let mut measured = vec![Vec::new(); self.sizes.len()];
        for _ in 0..ROUNDS {
            for (size, measured) in self.sizes.iter().zip(&mut measured) {
                let server = self.server.replace("{size}", &size.to_string());
                // Sessions of another measurement would stay.
                let server = bench.start(&server)?;
                // Without the idle sessions and streams, whose memory is measured.
                let warm_up = self.load.split(" --idle").next().unwrap_or_default();
                let warm_up = format!("http {warm_up} --millis {WARM_UP_MILLIS}");
                server.load(bench, &warm_up, *size)?;
                measured.push(server.load(bench, &format!("http {}", self.load), *size)?);
            }
        }
        let points = self.sizes.iter().zip(&measured);
        let mut points: Vec<_> = points.map(|(size, all)| Point::new(*size, all)).collect();
        let costs: Vec<_> = points.iter().map(|point| self.cost(point)).collect();
        for (point, cost) in points.iter_mut().zip(&costs) {
            point.growth = cost / costs[0];
        }
        Ok(points)
    }

    /// The cost of a unit of work.
    fn cost(&self, point: &Point) -> f64 {
        match self.work {
            Work::Call => point.cpu,
            Work::Byte => point.cpu / point.bytes,
        }
    }

    /// The largest growth, as a row of the bench's table.
    fn row(&self, points: &[Point]) -> Row {
        let growth = points.iter().map(|point| point.growth).fold(0.0, f64::max);
        let work = format!("growth of the cost: {}", self.title);
        Row::absolute(&work, growth, None, Limit::AtMost(MAX_GROWTH))
    }
}

impl Point {
    fn new(size: usize, measured: &[Value]) -> Self {
        let of = |field| median(measured.iter().map(|one| figure(one, field)).collect());
        Self {
            size,
            per_second: of("per_second"),
            p50: of("p50_us"),
            p99: of("p99_us"),
            cpu: of("cpu_us"),
            bytes: of("bytes"),
            idle: of("idle_kib"),
            growth: 1.0,
        }
    }

    fn cells(&self, title: &str) -> String {
        let Self { size, .. } = self;
        #[expect(clippy::cast_precision_loss, reason = "a mean")]
        let idle = match self.idle > 0.0 {
            true => format!("{:.1}", self.idle / *size as f64),
            false => String::new(),
        };
        format!(
            "| {title} | {size} | {:.0} | {:.0} | {:.0} | {:.1} | {:.0} | {:.2} | {idle} |\n",
            self.per_second, self.p50, self.p99, self.cpu, self.bytes, self.growth
        )
    }
}

fn series() -> impl Iterator<Item = anyhow::Result<Series<'static>>> {
    let lines = SCALE.lines().filter(|line| !line.starts_with('#'));
    lines.map(Series::parse)
}

/// Measures all series and writes the page; returns a row for each.
pub(super) fn measure(bench: &Bench<'_>) -> anyhow::Result<Vec<Row>> {
    let mut rows = Vec::new();
    let mut lines = Vec::new();
    let mut table = "| | size | calls/s | p50 µs | p99 µs | CPU µs | bytes | growth | idle KiB |\n\
         |---|--:|--:|--:|--:|--:|--:|--:|--:|\n"
        .to_owned();
    for series in series() {
        let series = series?;
        let points = series.measure(bench)?;
        rows.push(series.row(&points));
        table.extend(points.iter().map(|point| point.cells(series.title)));
        #[expect(clippy::cast_precision_loss, reason = "a coordinate")]
        let points = points.iter().map(|point| (point.size as f64, point.growth));
        lines.push(Line {
            title: series.title,
            points: points.collect(),
        });
    }
    let server = bench.start("items")?;
    let pairs = compare(
        || server.load(bench, BESIDE, 0),
        || server.load(bench, SMALL, 0),
    )?;
    let work = "p99 of small calls beside answers of 4 MB, µs";
    let beside = pairs.sample("p99_us");
    table += &format!(
        "\nSmall calls beside a client that fetches 4 MB again and again: p99 {:.0} µs, alone {:.0} µs.\n",
        beside.ours, beside.floor
    );
    rows.push(Row::relative(
        work,
        &beside,
        None,
        "alone",
        Limit::AtMost(3.0),
    ));
    plot::draw(&bench.layout.root.join(PLOT), &lines)?;
    let page = bench.layout.root.join(PAGE);
    let text = fs::read_to_string(&page)?;
    fs::write(
        &page,
        replaced(&text, &table).context("the page has no place for it")?,
    )?;
    Ok(rows)
}

/// Returns the page with another table.
fn replaced(page: &str, table: &str) -> Option<String> {
    let (before, rest) = page.split_once(START)?;
    let (_, after) = rest.split_once(END)?;
    Some(format!("{before}{START}\n{table}\n{END}{after}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_is_valid() {
        let all: Vec<_> = series().collect::<anyhow::Result<_>>().unwrap();
        assert_eq!(all.len(), 9);
        assert_eq!(all[0].sizes, [1, 2, 4]);
        assert!(all.iter().all(|series| series.sizes.is_sorted()));
    }

    #[test]
    fn the_page_has_a_place_for_the_table() {
        let page = include_str!("../../../docs/performance.md");
        let changed = replaced(page, "| new |").unwrap();
        assert!(changed.contains("\n| new |\n"));
        assert_eq!(replaced(&changed, "| new |").unwrap(), changed);
    }
}
