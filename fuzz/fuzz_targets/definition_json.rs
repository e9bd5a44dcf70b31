//! libFuzzer's way into the target `definition_json`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    let target = millstream_fuzz::Target::named("definition_json").expect("the list has it");
    (target.check)(input);
});
