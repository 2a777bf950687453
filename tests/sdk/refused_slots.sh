#!/bin/sh
# Methods that cannot fill their slot do not compile, and the compiler's message says what is wrong.
# Usage: refused_slots.sh SDK_INCLUDE_DIR API_INCLUDE_DIR
set -eu
sdk=$(cd "$1" && pwd)
api=$(cd "$2" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cat > "$work/wrong.cpp" << 'EOF'
#include <cohort/sdk/accelerator.hpp>
#include <cohort/sdk/collective.hpp>
#include <cohort/sdk/strategy.hpp>
using namespace cohort::sdk;

struct NoArgument : Strategy<NoArgument> { void end_step() {} };
struct NotConst : Strategy<NotConst> { void end_step(cohort_step&) {} };
struct OtherResult : Strategy<OtherResult> { int get_extension(const char*) { return 0; } };
struct Static : Strategy<Static> { static void shutdown(int) {} };
struct Create : Strategy<Create> { void create(Options&) {} };
constexpr cohort_component kStrategies[] = {
    strategy<NoArgument>("a", "a"), strategy<NotConst>("b", "b"), strategy<OtherResult>("c", "c"),
    strategy<Static>("d", "d"), strategy<Create>("e", "e")};

struct Select : Accelerator<Select> {
  static constexpr int32_t kDeviceType = 9;
  static constexpr const char* kTorchDeviceType = "it";
  int32_t device_count() { return 1; }
  void select() {}
};
struct WaitAlone : Accelerator<WaitAlone> {
  static constexpr int32_t kDeviceType = 9;
  static constexpr const char* kTorchDeviceType = "it";
  int32_t device_count() { return 1; }
  void wait(const cohort_stream&) {}
};
constexpr cohort_component kAccelerators[] = {accelerator<Select>("a", "a"), accelerator<WaitAlone>("b", "b")};

template <class C>
struct Base : Communicator<C> {
  int rank() const { return 0; }
  int size() const { return 1; }
  void exchange(Span<const cohort_message>, const cohort_stream&) {}
};
struct Barrier : Base<Barrier> { void barrier(int) {} };
struct AllocAlone : Base<AllocAlone> {
  std::unique_ptr<AllocAlone> split(int32_t, int32_t) { return nullptr; }
  void* alloc(uint64_t) { return nullptr; }
};
struct NoSplit : Base<NoSplit> {
  void* alloc(uint64_t) { return nullptr; }
  void release(void*) {}
};
template <class C>
struct Of : Collective<Of<C>, C> { std::unique_ptr<C> connect(const cohort_connect_args&) { return nullptr; } };
struct Plain : Base<Plain> {};
struct Connect : Collective<Connect, Plain> { std::unique_ptr<Plain> connect() { return nullptr; } };
constexpr cohort_component kCollectives[] = {
    collective<Of<Barrier>>("a", "a"), collective<Of<AllocAlone>>("b", "b"), collective<Of<NoSplit>>("c", "c"),
    collective<Connect>("d", "d")};
EOF

expect() {  # number of errors, text of their message
  found=$(grep -cE "error: static.assert.*$2" "$work/said" || true)
  test "$found" = "$1" && return
  grep error: "$work/said" >&2
  echo "$compiler says $found times and not $1 times: $2" >&2
  exit 1
}

tried=0
for compiler in g++ clang++; do
  command -v $compiler > /dev/null || continue
  if $compiler -std=c++17 -fsyntax-only -I"$sdk" -I"$api" "$work/wrong.cpp" 2> "$work/said"; then
    echo "$compiler takes all of it" >&2
    exit 1
  fi
  expect 7 "has the name of a slot but not its signature"
  expect 1 "alloc_pinned, free_pinned, copy_to_host, copy_to_device and wait, or none"
  expect 1 "alloc and release, or neither"
  expect 1 "with alloc has split, too"
  expect 1 "connect.const cohort_connect_args&"
  tried=$((tried + 1))
done
test "$tried" -gt 0
