//! Axes of figures: positions of values and tick marks.

/// The horizontal axis.
pub(crate) struct AxisScale {
    /// First and last value.
    ends: (f64, f64),
    /// Values with a line, and their labels. Some lines have no label.
    pub(crate) ticks: Vec<(f64, Option<String>)>,
    log: bool,
}

impl AxisScale {
    /// Creates a linear axis from 0 to `top` with round steps.
    pub(crate) fn linear(top: f64) -> Self {
        let magnitude = 10f64.powf((top / 4.0).log10().floor());
        let step = [1.0, 2.0, 2.5, 5.0, 10.0].map(|step| step * magnitude);
        let step = step.into_iter().find(|step| top / step <= 6.0).unwrap_or(top);
        let steps = (top / step) as usize;
        let ticks = (0..=steps).map(|n| n as f64 * step);
        let ticks = ticks.map(|tick| (tick, Some(number(tick)))).collect();
        Self { ends: (0.0, top), ticks, log: false }
    }

    /// Creates a logarithmic axis of powers of `base` around `values`. `label` formats the value of a power.
    pub(crate) fn log(base: u32, values: &[f64], label: impl Fn(f64) -> String) -> Self {
        let base = f64::from(base);
        let powers = values.iter().filter(|value| **value > 0.0).map(|value| value.log(base));
        let low = powers.clone().fold(f64::INFINITY, f64::min).floor();
        let high = powers.fold(f64::NEG_INFINITY, f64::max).ceil().max(low + 1.0);
        let (low, high) = if low.is_finite() { (low as i32, high as i32) } else { (0, 1) };
        let mut ticks = Vec::new();
        for power in low..=high {
            let tick = base.powi(power);
            ticks.push((tick, Some(label(tick))));
            if power < high {
                ticks.extend((2..base as u32).map(|n| (tick * f64::from(n), None)));
            }
        }
        Self { ends: (base.powi(low), base.powi(high)), ticks, log: true }
    }

    /// Returns the position of `value` on an axis of length 1.
    pub(crate) fn at(&self, value: f64) -> f64 {
        let place = |value: f64| if self.log { value.max(f64::MIN_POSITIVE).ln() } else { value };
        let (from, to) = (place(self.ends.0), place(self.ends.1));
        ((place(value) - from) / (to - from)).clamp(0.0, 1.0)
    }
}

/// Formats a number with about three significant digits.
pub(crate) fn number(value: f64) -> String {
    let digits = match value {
        100.0.. => 0,
        10.0.. => 1,
        _ => 2,
    };
    let text = format!("{value:.digits$}");
    let short = text.trim_end_matches('0').trim_end_matches('.');
    if text.contains('.') { short.into() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(scale: &AxisScale) -> Vec<&str> {
        scale.ticks.iter().filter_map(|(_, label)| label.as_deref()).collect()
    }

    #[test]
    fn an_even_axis_has_few_round_steps_and_holds_its_top() {
        for (top, wanted) in [
            (1.0, &["0", "0.2", "0.4", "0.6", "0.8", "1"][..]),
            (87.0, &["0", "20", "40", "60", "80"]),
            (32768.0, &["0", "10000", "20000", "30000"]),
        ] {
            assert_eq!(labels(&AxisScale::linear(top)), wanted);
        }
        assert_eq!(AxisScale::linear(80.0).at(20.0), 0.25);
    }

    #[test]
    fn a_log_axis_goes_from_power_to_power() {
        let scale = AxisScale::log(10, &[0.3, 47.0], number);
        assert_eq!(labels(&scale), ["0.1", "1", "10", "100"]);
        assert!((scale.at(10.0) - 2.0 / 3.0).abs() < 1e-9);
        assert_eq!((scale.at(0.0), scale.at(1e9)), (0.0, 1.0));
        assert_eq!(labels(&AxisScale::log(10, &[], number)), ["1", "10"]);
    }

    #[test]
    fn numbers_are_short() {
        for (value, text) in [
            (0.0, "0"),
            (0.27, "0.27"),
            (2.5, "2.5"),
            (26.61, "26.6"),
            (2942.6, "2943"),
            (100.0, "100"),
        ] {
            assert_eq!(number(value), text);
        }
    }
}
