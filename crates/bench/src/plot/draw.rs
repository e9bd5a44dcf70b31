//! Selects the charts of a report.

use super::chart::{ChartBars, ChartCurve, ChartFrame};
use super::svg::{SvgDrawing, TextAnchor};
use crate::calls::CallFigure;
use crate::graph::GraphsReport;
use crate::report::{BenchReport, EventStage, LatencyReport, WorkloadReport};

const WIDTH: f64 = 920.0;
const CHART: f64 = 300.0;
const HEAD: f64 = 48.0;

/// An SVG file.
pub fn draw_report(report: &BenchReport) -> String {
    let mut svg = SvgDrawing::default();
    svg.draw_text(
        (16.0, 22.0),
        16.0,
        TextAnchor::Start,
        &format!("millstream {} bench: {}", report.version, report.target),
    );
    let cpu = report.machine.cpu.as_deref().unwrap_or(report.machine.architecture);
    svg.draw_text((16.0, 40.0), 11.0, TextAnchor::Start, &format!("{} cores, {cpu}", report.machine.cores));
    let mut y = HEAD;
    let mut place = || {
        let at = (0.0, y);
        y += CHART;
        at
    };
    if !report.workloads.is_empty() {
        draw_overview(&mut svg, place(), &report.workloads);
    }
    for workload in &report.workloads {
        let curves = over_time(workload);
        // A run of a few samples is too short for a curve.
        if curves.iter().all(|curve| curve.points.len() >= 3) {
            let title = format!("{}: throughput over time", workload.workload);
            chart_frame(place(), &title, "seconds", "events/s").draw_curves(&mut svg, &curves);
        }
    }
    if let Some(latency) = &report.latency {
        by_percentile(&mut svg, place(), latency);
        for rate in rates_of(latency) {
            draw_latency_curves(&mut svg, place(), latency, rate);
        }
    }
    if let Some(graphs) = &report.graphs {
        graph_speed(&mut svg, place(), graphs);
        graph_cost(&mut svg, place(), graphs);
    }
    if let Some(people) = &report.people {
        draw_calls(&mut svg, place(), "People at work, median run", people.median.calls.iter());
    }
    if let Some(line) = &report.line {
        draw_calls(
            &mut svg,
            place(),
            "People in front of a long line",
            line.figures.iter().map(|one| &one.asked),
        );
    }
    if let Some(devices) = &report.devices {
        draw_calls(&mut svg, place(), "Devices and their runs, median run", devices.median.calls.iter());
    }
    svg.finish(WIDTH, y)
}

fn draw_overview(svg: &mut SvgDrawing, at: (f64, f64), workloads: &[WorkloadReport]) {
    let floor = workloads.iter().any(|one| one.floor.is_some());
    let mut series = vec!["submit".to_owned(), "end to end".to_owned()];
    series.extend(floor.then(|| "floor".to_owned()));
    let groups = workloads.iter().map(|one| {
        let mut values = vec![one.submit_per_second.median, one.end_to_end_per_second.median];
        values.extend(one.floor.as_ref().map(|floor| floor.per_second.median));
        (one.workload.to_string(), values)
    });
    let frame = chart_frame(at, "Throughput, median run", "workload", "events/s");
    frame.draw_bars(svg, &ChartBars { series, groups: groups.collect() });
}

/// Rates within windows of the median run.
fn over_time(one: &WorkloadReport) -> Vec<ChartCurve> {
    let course = &one.median.course;
    let accepted: Vec<(f64, f64)> = course
        .iter()
        .filter_map(|point| Some((point.seconds, crate::usage::as_f64(point.accepted?))))
        .collect();
    let decided: Vec<(f64, f64)> = course
        .iter()
        .filter_map(|point| {
            Some((point.seconds, crate::usage::as_f64(usize::try_from(point.decided?).ok()?)))
        })
        .collect();
    [("accepted", accepted), ("decided", decided)]
        .into_iter()
        .filter(|(_, totals)| !totals.is_empty())
        .map(|(name, totals)| ChartCurve { name: name.to_owned(), points: rates_over_time(&totals) })
        .collect()
}

/// From running totals to rates, over at least a twentieth of the whole.
fn rates_over_time(totals: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let Some((length, _)) = totals.last() else { return Vec::new() };
    let window = (length / 20.0).max(0.1);
    let mut points = Vec::new();
    let (mut since, mut before) = (0.0, 0.0);
    for (seconds, total) in totals {
        if seconds - since >= window {
            points.push(((since + seconds) / 2.0, (total - before) / (seconds - since)));
            (since, before) = (*seconds, *total);
        }
    }
    points
}

fn by_percentile(svg: &mut SvgDrawing, at: (f64, f64), latency: &LatencyReport) {
    let groups = latency.figures.iter().map(|figure| {
        let seen = &figure.latency;
        let name = format!("{} {:.0}/s", stage_words(figure.stage), figure.per_second);
        (name, vec![seen.p50_ms, seen.p90_ms, seen.p99_ms])
    });
    let series = ["p50", "p90", "p99"].map(str::to_owned).to_vec();
    let frame = chart_frame(at, "Latency from POST, all rates", "stage and rate", "ms");
    frame.draw_bars(svg, &ChartBars { series, groups: groups.collect() });
}

/// The distinct rates of a report.
fn rates_of(latency: &LatencyReport) -> Vec<f64> {
    let mut rates: Vec<f64> = latency.figures.iter().map(|figure| figure.per_second).collect();
    rates.dedup();
    rates
}

fn draw_latency_curves(svg: &mut SvgDrawing, at: (f64, f64), latency: &LatencyReport, rate: f64) {
    let curves: Vec<ChartCurve> = latency
        .figures
        .iter()
        .filter(|figure| figure.per_second.total_cmp(&rate).is_eq())
        .map(|figure| ChartCurve {
            name: stage_words(figure.stage).to_owned(),
            points: figure
                .latency
                .curve
                .iter()
                .filter(|(percentile, _)| *percentile <= 99.0)
                .copied()
                .collect(),
        })
        .collect();
    let title = format!("Latency from POST at {rate:.0} events/s");
    chart_frame(at, &title, "percentile (up to 99)", "ms").draw_curves(svg, &curves);
}

const fn stage_words(stage: EventStage) -> &'static str {
    match stage {
        EventStage::Accepted => "accepted",
        EventStage::Applied => "applied",
        EventStage::ActionStarted => "action",
        EventStage::Completed => "completed",
    }
}

fn graph_speed(svg: &mut SvgDrawing, at: (f64, f64), graphs: &GraphsReport) {
    let groups = graphs.graphs.iter().map(|one| {
        let speed = &one.nodes_per_second;
        (format!("{} {}", one.shape, one.nodes), vec![speed.least, speed.median, speed.most])
    });
    let series = ["least", "median", "most"].map(str::to_owned).to_vec();
    let frame = chart_frame(at, "Graphs, from creation to end", "shape and size", "nodes/s");
    frame.draw_bars(svg, &ChartBars { series, groups: groups.collect() });
}

fn draw_calls<'a>(
    svg: &mut SvgDrawing,
    at: (f64, f64),
    title: &str,
    figures: impl Iterator<Item = &'a CallFigure>,
) {
    let groups = figures.map(|CallFigure { call, latency }| {
        ((*call).to_owned(), vec![latency.p50_ms, latency.p90_ms, latency.p99_ms])
    });
    let series = ["p50", "p90", "p99"].map(str::to_owned).to_vec();
    chart_frame(at, title, "call", "ms").draw_bars(svg, &ChartBars { series, groups: groups.collect() });
}

/// A missing bar means unknown: the CPU of an engine that was not started here.
fn graph_cost(svg: &mut SvgDrawing, at: (f64, f64), graphs: &GraphsReport) {
    let groups = graphs.graphs.iter().map(|one| {
        let cpu = [&one.engine_cpu_micros_per_node, &one.cpu_micros_per_node];
        let cpu = cpu.into_iter().flatten().map(|spread| spread.median);
        (
            format!("{} {}", one.shape, one.nodes),
            std::iter::once(one.micros_per_node.median).chain(cpu).collect(),
        )
    });
    let series = ["time", "CPU of the engine", "with its services"].map(str::to_owned).to_vec();
    let frame = chart_frame(at, "What a node costs, medians", "shape and size", "us/node");
    frame.draw_bars(svg, &ChartBars { series, groups: groups.collect() });
}

fn chart_frame<'a>(at: (f64, f64), title: &'a str, across: &'a str, up: &'a str) -> ChartFrame<'a> {
    ChartFrame { at, size: (WIDTH, CHART), title, across, up }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_become_rates() {
        let totals: Vec<(f64, f64)> =
            (1..=40).map(|tenth| (f64::from(tenth) / 10.0, f64::from(tenth) * 50.0)).collect();
        let rates = rates_over_time(&totals);
        assert!(rates.len() >= 10);
        assert!(rates.iter().all(|(_, rate)| (rate - 500.0).abs() < 1e-6), "{rates:?}");
        assert!(super::rates_over_time(&[]).is_empty());
    }
}
