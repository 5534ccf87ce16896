//! Words that make no sense are refused by name, with exit code 1, before anything is touched.

use assert_cmd::Command;

fn deltic(words: &[&str]) -> Command {
    let mut command = Command::cargo_bin("deltic").expect("the binary is built");
    command.env_remove("DELTIC_RSH").args(words);
    command
}

/// Runs `words` and checks that they are refused; gives back the message.
fn refusal(words: &[&str]) -> String {
    let output = deltic(words).output().expect("the binary starts");
    let message = String::from_utf8(output.stderr).expect("messages are UTF-8");
    assert_eq!(output.status.code(), Some(1), "{words:?}: {message}");
    assert!(output.stdout.is_empty(), "{words:?}");
    message
}

#[test]
fn words_that_make_no_sense_are_refused_by_name() {
    for (words, culprit) in [
        (&["sync", "--fooo", "a", "b"][..], "--fooo"),
        (&["sync", "-aZ", "a", "b"], "-Z"),
        (&["sync", "h:a", "g:b"], "'h' and destination 'g'"),
        (&["sync", "h:a", "g:b", "c"], "'g:b'"),
        (&["sync", "--bwlimit", "5x", "a", "b"], "5x"),
        (&["sync", "--bwlimit=100b", "a", "b"], "100b"),
        (&["sync", "--delete", "--max-delete=many", "a", "b"], "many"),
        (&["sync", "-e", "ssh 'x", "a", "h:b"], "ssh 'x"),
        (&["sync", "--streams=2", "--strategy=rsync", "a", "h:b"], "'--strategy rsync'"),
        (&["sync", "-a", "--delete", "a", "host:"], "'host:.'"),
        (&["sync", "-a", "--remove-source-files", "host:", "a"], "'host:.'"),
        (&["sync", "--", "-oProxyCommand=x:a", "b"], "-oProxyCommand"),
        (&["sync", "a", ""], "empty"),
        (&["sink", "a", "b"], "sink"),
    ] {
        let message = refusal(words);
        assert!(
            message.starts_with("deltic: ") && message.contains(culprit),
            "{words:?}: {message}"
        );
    }
}

#[test]
fn an_option_of_rsync_that_is_missing_is_explained() {
    assert!(
        refusal(&["sync", "-avN", "a", "b"]).contains("'-N' is not supported\n  hint: Linux sets")
    );
}

#[test]
fn a_tip_names_the_right_option_or_there_is_none() {
    let told = |word: &str| refusal(&["sync", word, "a", "b"]);
    for (word, right) in [
        ("--ssh-port=2222", "hint: -e 'ssh -p PORT' names the port"),
        ("--parallel=4", "--threads N"),
        ("--transfers=4", "--streams N"),
        ("--exclude-file=x", "--exclude-from FILE"),
        ("--delte", "similar argument exists: '--delete'"),
        ("--recursiv", "similar argument exists: '--recursive'"),
        ("--log", "similar argument exists: '--log-file'"),
    ] {
        assert!(told(word).contains(right), "{word}: {}", told(word));
    }
    assert!(refusal(&["snc", "a", "b"]).contains("similar subcommand exists: 'sync'"));
    assert!(!refusal(&["nosuch", "a", "b"]).contains("tip:"));
    for word in ["-Q", "--zzz", "--transmute"] {
        assert!(!told(word).contains("tip:") && told(word).contains(word), "{}", told(word));
    }
}

#[test]
fn who_writes_as_to_rsync_is_told_of_sync() {
    for words in [&["-av", "a", "h:b"][..], &["a/", "h:b"]] {
        assert!(refusal(words).contains("hint: to sync as rsync does, write `deltic sync "));
    }
    assert!(!refusal(&["sync", "--fooo", "a", "b"]).contains("hint: to sync"));
}

#[test]
fn no_words_at_all_show_the_help() {
    assert!(refusal(&[]).contains("EXAMPLES:"));
}

#[test]
fn help_goes_to_standard_output_and_shows_examples() {
    for words in
        [&["--help"][..], &["-h"], &["sync", "--help"], &["sync", "-h"], &["agent", "--help"]]
    {
        let output = deltic(words).output().expect("the binary starts");
        let help = String::from_utf8(output.stdout).expect("help is UTF-8");
        assert!(
            output.status.success() && help.contains("EXAMPLES:\n  deltic "),
            "{words:?}: {help}"
        );
    }
}

#[test]
fn the_letter_alone_shows_one_screen_and_the_word_all_options() {
    let help = |words: &[&str]| {
        let output = deltic(words).output().expect("the binary starts");
        assert!(output.status.success() && output.stderr.is_empty(), "{words:?} {output:?}");
        String::from_utf8(output.stdout).expect("help is UTF-8")
    };
    for command in ["sync", "watch", "verify"] {
        let (screen, all) = (help(&[command, "-h"]), help(&[command, "--help"]));
        assert!(screen.lines().count() <= 40 && screen.contains("\n--help lists all"), "{screen}");
        assert!(screen.contains("EXAMPLES:\n  deltic "), "{screen}");
        for option in ["--exclude <PATTERN>", "--archive"] {
            assert!(screen.contains(option) && all.contains(option), "{command} {option}");
        }
        assert!(all.contains("--chmod") && !screen.contains("--chmod"), "{command}");
    }
    assert!(help(&["verify", "--help"]).contains("Compare hard links"));
}

#[test]
fn quiet_says_nothing_of_what_may_be_told() {
    for option in ["--info=help", "--debug=help"] {
        let said = |words: &[&str]| {
            let output = deltic(words).output().expect("the binary starts");
            assert!(output.status.success() && output.stderr.is_empty(), "{words:?}");
            output.stdout.len()
        };
        assert!(said(&["sync", option]) > 0);
        assert_eq!(said(&["sync", "-q", option]), 0);
    }
}

#[test]
fn a_refusal_is_an_event_too() {
    let output = deltic(&["sync", "--json", "h:a", "g:b"]).output().expect("the binary starts");
    let event: serde_json::Value = serde_json::from_slice(&output.stdout).expect("one event");
    assert_eq!((event["event"].as_str(), event["exit_code"].as_u64()), (Some("error"), Some(1)));
}

#[test]
fn an_instruction_set_from_the_environment_is_used_or_refused() {
    let dir = tempfile::tempdir().expect("a temporary directory can be made");
    std::fs::write(dir.path().join("old"), "old").expect("it can be written");
    let with = |isa: &str| {
        let mut command = deltic(&["signature", "old", "-o", "sig"]);
        command.env("DELTIC_ISA", isa).current_dir(dir.path()).output().expect("the binary starts")
    };
    let refused = with("nonsense");
    let said = String::from_utf8(refused.stderr).expect("messages are UTF-8");
    assert_eq!((refused.status.code(), refused.stdout), (Some(1), Vec::new()), "{said}");
    assert!(
        said.starts_with("deltic: DELTIC_ISA: \"nonsense\" is not an instruction set"),
        "{said}"
    );
    assert_eq!(with("scalar").status.code(), Some(0));
}

#[test]
fn words_of_bench_go_to_the_program_that_measures() {
    let dir = tempfile::tempdir().expect("a temporary directory can be made");
    // Programs are written by others: while this process has one open for writing, a child of another test may too.
    let shell = |script: &str| {
        let mut shell = Command::new("sh");
        shell.args(["-c", script, "sh", env!("CARGO_BIN_EXE_deltic")]).current_dir(dir.path());
        shell.assert().success();
    };
    let bench = || {
        let mut command = Command::new(dir.path().join("deltic"));
        let words = ["bench", "sync", "--help", "--", "it's"];
        command.args(words).env("PATH", dir.path()).output().expect("the binary starts")
    };
    shell("cp \"$1\" deltic");
    let missing = bench();
    let said = String::from_utf8(missing.stderr).expect("messages are UTF-8");
    assert_eq!(missing.status.code(), Some(14), "{said}");
    assert!(said.starts_with("deltic: cannot start deltic-bench: no such file"), "{said}");
    assert!(said.contains("hint: "), "{said}");
    shell(
        "printf '#!/bin/sh\\nprintf \"<%%s>\" \"$@\"\\nexit 7\\n' >deltic-bench; chmod +x deltic-bench",
    );
    let run = bench();
    assert_eq!(run.status.code(), Some(7));
    assert_eq!(String::from_utf8_lossy(&run.stdout), "<sync><--help><--><it's>");
}

/// A password in a command is there for all users of the machine to see: it is refused, and not repeated.
#[test]
fn the_password_of_a_url_is_never_shown() {
    let dir = tempfile::tempdir().expect("it can be made");
    for words in [
        "sync -a a https://me:hunter2@host/v/",
        "sync -a --explain https://me:hunter2@host:8420/v/ b",
        "sync -a --json --log-file=log a https://hunter2@host/v/",
        "sync -a s3://id:hunter2@bucket/x b",
        "sync -a hdfs://me:hunter2@host:8020/x b",
        "sync -a a ssh://me:hunter2@host/x",
        "sync -a a rsync://me:hunter2@host/module",
        "sync -a a ftp://me:hunter2@host/x",
        "sync -a --bwlimit=https://me:hunter2@host/ a b",
        "sync -a --no-such=https://me:hunter2@host/ a b",
        "watch -a a https://me:hunter2@host/v/",
        "verify a https://me:hunter2@host/v/",
        "versions https://me:hunter2@host/v/x",
        "ls https://me:hunter2@host/v/x",
        "cat https://me:hunter2@host/v/x",
        "size s3://id:hunter2@bucket/x",
        "login https://me:hunter2@host/",
        "login https://hunter2@host/",
        "storage hdfs://me:hunter2@host:8020/x",
        "doctor https://me:hunter2@host/v/",
        "https://me:hunter2@host/v/",
    ] {
        let words: Vec<&str> = words.split(' ').collect();
        let mut command = deltic(&words);
        let run = command.current_dir(dir.path()).env("HOME", dir.path()).output();
        let run = run.expect("the binary starts");
        let said = [&run.stdout[..], &run.stderr].concat();
        let said = String::from_utf8_lossy(&said);
        assert!(!run.status.success(), "{words:?}: {said}");
        assert!(!said.is_empty() && !said.contains("hunter2"), "{words:?}: {said}");
    }
    let log = std::fs::read_to_string(dir.path().join("log")).unwrap_or_default();
    assert!(!log.contains("hunter2"), "{log}");
}
