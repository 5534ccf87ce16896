//! Results of all syncs, as tables for the terminal and as CSV.

use deltic_net::monitor::Stage;
use deltic_protocol::Purpose;

use super::settings::SyncSettings;
use super::trial::{COMPARED, SyncSample};
use crate::median::median;
use crate::table::TextTable;

/// All results.
pub(crate) struct SyncReport {
    /// Machine and way of measuring, in a line.
    pub(crate) machine: String,
    pub(crate) rows: Vec<SyncRow>,
}

/// The versions of a case, their change and the link.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SyncCase {
    /// Length of the old version, or the name of a pair.
    pub(crate) data: String,
    /// `none`, or the kind of change.
    pub(crate) change: String,
    /// Number of changed bytes. `None` for two files named by `--pair`.
    pub(crate) changed: Option<u64>,
    /// Amount of change as given on the command line.
    pub(crate) amount: String,
    /// Length of the new version in bytes.
    pub(crate) new_len: u64,
    pub(crate) link: String,
}

/// Results of a way to sync.
pub(crate) struct SyncRow {
    pub(crate) case: SyncCase,
    /// Name of the strategy or program.
    pub(crate) name: String,
    /// Settings of both ends. `None` if a program decides.
    pub(crate) settings: Option<SyncSettings>,
    samples: Vec<Vec<Option<f64>>>,
}

impl SyncRow {
    /// Makes a row without results.
    pub(crate) fn new(case: SyncCase, name: &str, settings: Option<SyncSettings>) -> Self {
        Self { case, name: name.into(), settings, samples: Vec::new() }
    }

    /// Returns the threads of each end. `None` if the program decides.
    pub(crate) fn threads(&self) -> Option<u32> {
        self.settings.as_ref().map(SyncSettings::threads)
    }

    /// Adds the results of a run.
    pub(crate) fn add(&mut self, sample: &SyncSample) {
        self.samples.push(sample.cells());
    }

    /// True if no run succeeded.
    pub(crate) fn is_empty(&self) -> bool {
        self.samples.is_empty()
    }

    /// Returns the median of a figure, if known.
    pub(crate) fn figure(&self, column: &str) -> Option<f64> {
        let at = SyncSample::columns().iter().position(|name| name == column);
        self.median(at.expect("the column exists"))
    }

    fn median(&self, at: usize) -> Option<f64> {
        let figures: Option<Vec<_>> = self.samples.iter().map(|cells| cells[at]).collect();
        figures.filter(|figures| !figures.is_empty()).map(median)
    }

    /// Returns the name in the legend of a figure.
    pub(crate) fn label(&self) -> String {
        let threads = |threads| format!("{} ({threads})", self.name);
        self.threads().map_or_else(|| self.name.clone(), threads)
    }

    fn names(&self) -> [String; 6] {
        let SyncCase { data, change, amount, link, .. } = &self.case;
        let threads = self.threads().map_or_else(|| "-".into(), |threads| threads.to_string());
        [data.clone(), change.clone(), amount.clone(), link.clone(), self.name.clone(), threads]
    }
}

impl SyncReport {
    /// Formats all tables for the terminal.
    pub(crate) fn lines(&self) -> Vec<String> {
        let mut lines = vec![self.machine.clone()];
        let mut put = |title: &str, table: &TextTable| {
            lines.extend([String::new(), format!("== {title}"), String::new()]);
            lines.extend(table.lines());
        };
        put("time in seconds, bytes on the wire", &self.table(&overview()));
        if self.rows.iter().any(|row| row.figure("waiting_s").is_some()) {
            for end in ["sender", "receiver"] {
                let title = format!("processor time of the {end}, in milliseconds");
                put(&title, &self.table(&stages(end)));
            }
            put("bytes from the sender (up) and to it (down)", &self.table(&purposes()));
            put("comparisons of sums", &self.table(&compared()));
        }
        lines
    }

    fn table(&self, columns: &[TableColumn]) -> TextTable {
        let header = NAMES.map(String::from).into_iter();
        let header = header.chain(columns.iter().map(|column| column.title.clone()));
        let mut table = TextTable::new(NAMES.len(), header);
        for row in &self.rows {
            let figures: Vec<_> = columns.iter().map(|column| row.figure(&column.name)).collect();
            if figures.iter().any(Option::is_some) {
                let cells = columns.iter().zip(figures).map(|(column, figure)| column.cell(figure));
                table.row(row.names().into_iter().chain(cells));
            }
        }
        table
    }

    /// Formats all results as CSV, with a line for each row.
    pub(crate) fn csv(&self) -> String {
        let names =
            ["data", "change", "changed_bytes", "new_bytes", "link", "name", "threads", "runs"];
        let columns = SyncSample::columns();
        let mut table =
            TextTable::new(0, names.map(String::from).into_iter().chain(columns.clone()));
        for row in &self.rows {
            let SyncCase { data, change, changed, new_len, link, .. } = &row.case;
            let names = [
                plain(data),
                change.clone(),
                changed.map_or_else(String::new, |bytes| bytes.to_string()),
                new_len.to_string(),
                link.clone(),
                row.name.clone(),
                row.threads().map_or_else(String::new, |threads| threads.to_string()),
                row.samples.len().to_string(),
            ];
            let figures = columns.iter().enumerate().map(|(at, name)| {
                let digits = if name.ends_with("_s") { 6 } else { 0 };
                row.median(at).map_or_else(String::new, |figure| format!("{figure:.digits$}"))
            });
            table.row(names.into_iter().chain(figures));
        }
        table.csv()
    }
}

/// A column of a table for the terminal.
struct TableColumn {
    title: String,
    /// Name of the figure.
    name: String,
    /// Factor to multiply values with.
    scale: f64,
    digits: usize,
}

impl TableColumn {
    fn new(title: &str, name: impl Into<String>, scale: f64, digits: usize) -> Self {
        Self { title: title.into(), name: name.into(), scale, digits }
    }

    fn cell(&self, figure: Option<f64>) -> String {
        let digits = self.digits;
        figure.map_or_else(|| "-".into(), |figure| format!("{:.digits$}", figure * self.scale))
    }
}

fn overview() -> Vec<TableColumn> {
    let seconds = [
        ("wall", "wall_s"),
        ("cpu", "cpu_s"),
        ("sender cpu", "sender_cpu_s"),
        ("receiver cpu", "receiver_cpu_s"),
        ("both wait", "waiting_s"),
    ];
    let bytes = [("up", "up_bytes"), ("down", "down_bytes"), ("literal", "literal_bytes")];
    let seconds = seconds.map(|(title, name)| TableColumn::new(title, name, 1.0, 4));
    let bytes = bytes.map(|(title, name)| TableColumn::new(title, name, 1.0, 0));
    seconds.into_iter().chain(bytes).collect()
}

fn stages(end: &str) -> Vec<TableColumn> {
    let stage = |stage: Stage| {
        TableColumn::new(stage.name(), format!("{end}_{}_cpu_s", stage.name()), 1e3, 2)
    };
    let version = if end == "sender" { "new" } else { "old" };
    let cut = TableColumn::new("cut alone", format!("{version}_cut_cpu_s"), 1e3, 2);
    Stage::ALL.map(stage).into_iter().chain([cut]).collect()
}

fn purposes() -> Vec<TableColumn> {
    let of = |way: &str| {
        let column = |purpose: Purpose| {
            let name = purpose.name();
            TableColumn::new(&format!("{way} {name}"), format!("{way}_{name}_bytes"), 1.0, 0)
        };
        Purpose::ALL.map(column)
    };
    ["up", "down"].into_iter().flat_map(of).collect()
}

fn compared() -> Vec<TableColumn> {
    let ends = ["sender", "receiver"].into_iter();
    let column = |end: &str, (title, column): (&str, &str)| {
        TableColumn::new(&format!("{end} {title}"), format!("{end}_{column}"), 1.0, 0)
    };
    ends.flat_map(|end| COMPARED.map(|sums| column(end, sums))).collect()
}

/// Replaces commas and quotes in a name, so that CSV needs no quoting.
fn plain(name: &str) -> String {
    name.replace([',', '"'], "_")
}

/// Columns that identify a row.
const NAMES: [&str; 6] = ["data", "change", "bytes", "link", "by", "threads"];
