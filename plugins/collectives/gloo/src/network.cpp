#include "network.hpp"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <string_view>
#include <utility>

#include "tags.hpp"

namespace cohort::gloo {

namespace {

using Clock = Watch::Clock;

constexpr std::chrono::milliseconds kAnswerTime{1000};
constexpr std::chrono::milliseconds kTimeOfLastWords{100};  // of this rank, before it leaves

template <std::size_t kSize>
std::string text_of(const std::array<char, kSize>& text) {
  return {text.data(), ::strnlen(text.data(), text.size())};
}

// The end of an operation's words.
std::string_view communicator_in(std::string_view operation) {
  return operation.substr(std::min(operation.rfind(" on '"), operation.size()));
}

}  // namespace

Network::Network(cohort_store* store, int rank, std::vector<Peer> peers, const std::string& address,
                 std::chrono::nanoseconds timeout)
    : rank_(rank),
      peers_(std::move(peers)),
      timeout_(timeout),
      mesh_(store, rank, static_cast<int>(peers_.size()), address,
            std::chrono::ceil<std::chrono::milliseconds>(timeout)),
      watch_(std::min<std::chrono::nanoseconds>(timeout, kLookEvery)),
      mailboxes_(peers_.size()) {
  for (int peer = 0; peer < size(); ++peer) {
    if (peer == rank_) continue;
    expect_note(peer);
    Mailbox& mailbox = mailboxes_[static_cast<std::size_t>(peer)];
    mailbox.to_come_never = mesh_.receive(peer, &mailbox.nothing, sizeof mailbox.nothing, kNothingTag);
  }
}

void Network::require_alive() const {
  if (has_failed_) throw *verdict_;
}

void Network::fail_broken(const Scene& scene, int peer, const std::string& reason) {
  fail([&] { return judge_broken(scene, peer, reason); });
}

void Network::fail_late(const Scene& scene, int peer) {
  fail([&] { return judge_late(scene, peer); });
}

void Network::use_number(int number) {
  if (number > kMaxNumber) {
    throw sdk::Error(COHORT_RESOURCE_EXHAUSTED,
                     "gloo: " + std::to_string(number) + " communicators were split off, which is one too many");
  }
  next_number_ = number + 1;
}

template <class Judge>
void Network::fail(Judge&& judge) {
  const std::lock_guard lock(failing_);
  if (!has_failed_) settle(judge());
  throw *verdict_;
}

void Network::settle(sdk::Error verdict) {
  verdict_ = std::move(verdict);
  tell(everybody(), verdict_->status(), verdict_->what());
  see_off();
  has_failed_ = true;
}

// What is under way before the notes goes no further once the operation that sends it is given up.
void Network::see_off() {
  const auto deadline = Clock::now() + kTimeOfLastWords;
  for (Transfer& note : sent_) {
    const Watch::Guard guard(watch_, deadline, [&note] {
      note.stop();
      return Watch::kNever;
    });
    try {
      note.wait();
    } catch (const LinkBroken&) {
      // It needs no note any more.
    }
  }
}

std::string Network::look_around(const Scene& scene, int peer) {
  const std::lock_guard lock(failing_);
  for (int other = 0; other < size() && !has_failed_; ++other) hear(scene, other);
  require_alive();
  Mailbox& mailbox = mailboxes_[static_cast<std::size_t>(peer)];
  try {
    mailbox.to_come_never->stop();
    mailbox.to_come_never->wait();
  } catch (const LinkBroken& broken) {
    return broken.what();
  }
  return {};
}

void Network::hear(const Scene& scene, int peer) {
  if (!has_note(peer)) return;
  const auto note = next_note(peer, Clock::now() + kAnswerTime);
  if (!note) return;
  if (note->status != COHORT_OK) return settle({note->status, text_of(note->text)});
  std::string& theirs = mailboxes_[static_cast<std::size_t>(peer)].waits_in;
  if (!theirs.empty()) return;  // two that answer each other's answers would never end
  theirs = text_of(note->text);
  tell({peer}, COHORT_OK, scene.operation);
}

void Network::give_up(const std::string& communicator) {
  {
    const std::lock_guard lock(failing_);
    if (!has_failed_) {
      const std::string what = own_name() + " has aborted '" + communicator + "'";
      tell(everybody(), COHORT_UNAVAILABLE, what);
      verdict_.emplace(COHORT_ABORTED, what);
      has_failed_ = true;
    }
  }
  const std::lock_guard lock(using_);
  is_given_up_ = true;
  disconnect_unless_used();
}

Network::Use::Use(Network& network) : network_(network) {
  const std::lock_guard lock(network_.using_);
  network_.require_alive();
  ++network_.users_;
}

Network::Use::~Use() {
  const std::lock_guard lock(network_.using_);
  --network_.users_;
  network_.disconnect_unless_used();
}

void Network::disconnect_unless_used() {
  if (!is_given_up_ || users_ > 0) return;
  mailboxes_.clear();
  sent_.clear();
  mesh_.close();
}

sdk::Error Network::judge_broken(const Scene& scene, int peer, const std::string& reason) {
  const auto deadline = Clock::now() + kAnswerTime;
  bool gave_up = false;
  while (const auto note = next_note(peer, deadline)) {
    if (note->status != COHORT_OK) return {note->status, text_of(note->text)};
    gave_up = true;
  }
  return {COHORT_UNAVAILABLE, describe({peer}) + (gave_up ? " gave up" : " is gone") + ", found in " + scene.operation +
                                  " by " + own_name() + " (" + reason + ")"};
}

sdk::Error Network::judge_late(const Scene& scene, int peer) {
  tell(everybody(), COHORT_OK, scene.operation);
  const auto deadline = Clock::now() + kAnswerTime;
  if (const auto verdict = hear_from(scene.ranks, deadline)) return *verdict;
  std::vector<int> missing = silent_of(scene.ranks);
  for (std::size_t i = 0; i < scene.ranks.size() && missing.empty(); ++i) {
    const int other = scene.ranks[i];
    const std::string& theirs = mailboxes_[static_cast<std::size_t>(other)].waits_in;
    if (other == rank_ || theirs == scene.operation.substr(0, Note().text.size() - 1)) continue;
    return judge_elsewhere(scene, other, deadline);
  }
  if (missing.empty()) missing = {peer};
  return late(describe(missing), scene);
}

// All ranks of the scene have answered, and this one is in another operation: of this communicator by mistake, of
// another one because somebody else has not come to that.
sdk::Error Network::judge_elsewhere(const Scene& scene, int other, Clock::time_point deadline) {
  const std::string& theirs = mailboxes_[static_cast<std::size_t>(other)].waits_in;
  if (communicator_in(theirs) == communicator_in(scene.operation)) {
    return {COHORT_FAILED_PRECONDITION, "ranks are in different operations: " + describe({rank_}) + " in " +
                                            scene.operation + ", " + describe({other}) + " in " + theirs +
                                            "; all ranks make the same calls in the same order"};
  }
  if (const auto verdict = hear_from(everybody(), deadline)) return *verdict;
  const std::vector<int> silent = silent_of(everybody());
  const std::string cause = silent.empty() ? "" : " (no answer from " + describe(silent) + ")";
  return late(describe({other}) + ", which waits in " + theirs + cause + ",", scene);
}

sdk::Error Network::late(const std::string& who, const Scene& scene) const {
  return {COHORT_DEADLINE_EXCEEDED, who + " did not do its part of " + scene.operation + " within " +
                                        in_words(timeout_) + ", waited for by " + own_name()};
}

std::optional<sdk::Error> Network::hear_from(const std::vector<int>& ranks, Clock::time_point deadline) {
  for (const int other : silent_of(ranks)) {
    const auto note = next_note(other, deadline);
    if (note && note->status != COHORT_OK) return sdk::Error(note->status, text_of(note->text));
    if (note) mailboxes_[static_cast<std::size_t>(other)].waits_in = text_of(note->text);
  }
  return std::nullopt;
}

std::vector<int> Network::silent_of(const std::vector<int>& ranks) const {
  std::vector<int> silent;
  for (const int rank : ranks) {
    if (rank != rank_ && mailboxes_[static_cast<std::size_t>(rank)].waits_in.empty()) silent.push_back(rank);
  }
  return silent;
}

std::vector<int> Network::everybody() const {
  std::vector<int> ranks(peers_.size());
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

std::string Network::describe(const std::vector<int>& ranks) const {
  std::string text;
  for (const int rank : ranks) {
    const Peer& peer = peers_[static_cast<std::size_t>(rank)];
    text += (text.empty() ? "" : ", ") + peer.who + " at " + peer.address;
  }
  return text;
}

void Network::expect_note(int peer) {
  Mailbox& mailbox = mailboxes_[static_cast<std::size_t>(peer)];
  mailbox.incoming.reset();
  mailbox.note.is_there = 0;
  try {
    mailbox.incoming = mesh_.receive(peer, &mailbox.note, sizeof mailbox.note, kNoteTag);
  } catch (const LinkBroken&) {
    // It is gone, and will be missed.
  }
}

bool Network::has_note(int peer) {
  Mailbox& mailbox = mailboxes_[static_cast<std::size_t>(peer)];
  return mailbox.incoming && std::atomic_ref(mailbox.note.is_there).load(std::memory_order_acquire) != 0;
}

std::optional<Network::Note> Network::next_note(int peer, Clock::time_point deadline) {
  Mailbox& mailbox = mailboxes_[static_cast<std::size_t>(peer)];
  if (!mailbox.incoming) return std::nullopt;
  {
    const Watch::Guard guard(watch_, deadline, [&mailbox] {
      mailbox.incoming->stop();
      return Watch::kNever;
    });
    try {
      while (!mailbox.incoming->wait()) {
        if (!has_note(peer)) return std::nullopt;  // a wait that is stopped may overlook what has come
      }
    } catch (const LinkBroken&) {
      return std::nullopt;
    }
  }
  const Note note = mailbox.note;
  expect_note(peer);
  return note;
}

void Network::tell(const std::vector<int>& ranks, int32_t status, const std::string& text) {
  Note& note = sent_notes_.emplace_back(Note{.status = status});
  text.copy(note.text.data(), note.text.size() - 1);
  for (const int peer : ranks) {
    if (peer == rank_) continue;
    try {
      sent_.push_back(mesh_.send(peer, &note, sizeof note, kNoteTag));
    } catch (const LinkBroken&) {
      // It needs no note any more.
    }
  }
}

std::string in_words(std::chrono::nanoseconds duration) {
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(duration).count();
  return ms % 1000 == 0 ? std::to_string(ms / 1000) + " s" : std::to_string(ms) + " ms";
}

}  // namespace cohort::gloo
