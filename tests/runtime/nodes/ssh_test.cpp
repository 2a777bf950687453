#include "ssh.hpp"

#include <cstdio>
#include <string>
#include <vector>

#include <gmock/gmock.h>

#include "message.hpp"
#include "node_job.hpp"

#include <cohort/host/error.hpp>

namespace cohort::nodes {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

std::string through_a_shell(const std::string& word) {
  std::FILE* const shell = ::popen(("printf %s " + quoted(word)).c_str(), "r");
  std::string text;
  for (int c = std::fgetc(shell); c != EOF; c = std::fgetc(shell)) text += static_cast<char>(c);
  ::pclose(shell);
  return text;
}

TEST(Quoted, IsOneWordForAShellWhateverItContains) {
  for (const std::string word :
       {"plain", "two words", "it's", "''", "'; exit 3; '", "$HOME `id` \\ \" * ? ~ # !", "line\nline", "\t"}) {
    EXPECT_EQ(through_a_shell(word), word);
  }
}

NodesJob job_of(const std::string& program) {
  NodesJob job;
  job.node_command = {program, "serve-node"};
  return job;
}

TEST(SshCommand, NeverAsksAndTakesPortAndKey) {
  NodesJob job = job_of("/opt/my cohort");
  job.ssh_port = 2222;
  job.ssh_identity = "/keys/a b";
  const std::vector<std::string> command = ssh_command(job, "me@[::1]");
  EXPECT_EQ(command[0], "ssh");
  EXPECT_THAT(command, AllOf(Contains("BatchMode=yes"), Contains("2222"), Contains("/keys/a b")));
  EXPECT_EQ(command[command.size() - 3], "--") << "a host is no option";
  EXPECT_EQ(command[command.size() - 2], "me@::1");
  EXPECT_EQ(command.back(), "exec '/opt/my cohort' 'serve-node'");
  EXPECT_THAT(ssh_command(job_of("/c"), "h"), AllOf(Not(Contains("-p")), Not(Contains("-i"))));
}

TEST(SshCommand, GivesUpASilentHostBeforeTheHostGivesUpTheLauncher) {
  NodesJob job = job_of("/c");
  EXPECT_THAT(ssh_command(job, "h"), AllOf(Contains("ServerAliveInterval=10"), Contains("ServerAliveCountMax=4")));
  job.longest_silence = std::chrono::seconds(6);
  EXPECT_THAT(ssh_command(job, "h"), AllOf(Contains("ServerAliveInterval=1"), Contains("ServerAliveCountMax=4")));
}

TEST(SshFailures, EachIsOneSentenceWithTheHostAndTheWayOut) {
  NodesJob job = job_of("/opt/cohort");
  job.ssh_port = 2222;
  struct Case {
    int code;
    const char* said;
    const char* what;
    const char* mend;
  };
  for (const Case& one : std::initializer_list<Case>{
           {255, "ssh: Could not resolve hostname h2: Name or service not known\r\n", "no address", "/etc/hosts"},
           {255, "ssh: connect to host h2 port 2222: Connection refused\r\n", "on port 2222", "--ssh-port"},
           {255, "ssh: connect to host h2 port 2222: Connection timed out\r\n", "does not answer", "firewall"},
           {255, "ssh: connect to host h2 port 2222: No route to host\r\n", "cannot be reached", "address"},
           {255, "ssh: connect to host h2 port 2222: Network is unreachable\r\n", "cannot be reached", "network"},
           {255, "me@h2: Permission denied (publickey).\r\n", "refuses this user's key", "authorized_keys"},
           {255, "No ED25519 host key is known.\r\nHost key verification failed.\r\n", "not known", "known_hosts"},
           {255, "@ WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED! @\nHost key verification failed.\r\n",
            "another key", "ssh-keygen -R"},
           {255, "kex_exchange_identification: read: Connection reset by peer\r\n", "Connection reset by peer",
            "ssh h2 true"},
           {255, "", "failed", "ssh h2 true"},
           {127, "bash: line 1: /opt/cohort: No such file or directory\n", "cannot execute /opt/cohort", "same path"},
           {126, "bash: line 1: /opt/cohort: Permission denied\n", "cannot execute /opt/cohort", "same path"},
           {1, "This account is currently not available.\n", "exit code 1 (This account", "same cohort"}}) {
    const std::string sentence = why_unreached(job, "h2", one.code, one.said);
    EXPECT_THAT(sentence, AllOf(HasSubstr("host h2"), HasSubstr(one.what), HasSubstr(one.mend)));
    EXPECT_THAT(sentence, Not(HasSubstr("\n")));
    EXPECT_THAT(sentence, Not(HasSubstr("\r")));
  }
}

TEST(LastLine, IsTheLastThatIsNotBlank) {
  EXPECT_EQ(last_line("one\r\ntwo\r\n\n  \n"), "two");
  EXPECT_EQ(last_line("one"), "one");
  EXPECT_EQ(last_line(" \n\n"), "");
  EXPECT_EQ(last_line(""), "");
}

TEST(Messages, AreFoundInAnyPiecesOfTheStreamBehindAProfile) {
  const std::string bytes = "Welcome!\ncohort node" + std::string(kGreeting) +
                            encode({MessageKind::kOutput, 3, "text\n"}) + encode({MessageKind::kErrors, -1, ""}) +
                            encode({MessageKind::kEnded, 137});
  for (const std::size_t piece : {std::size_t{1}, std::size_t{7}, bytes.size()}) {
    MessageReader reader(false);
    std::vector<Message> found;
    for (std::size_t begin = 0; begin < bytes.size(); begin += piece) {
      reader.add(std::string_view(bytes).substr(begin, piece));
      while (auto message = reader.next()) found.push_back(*message);
    }
    ASSERT_EQ(found.size(), 3u);
    EXPECT_EQ(found[0].text, "text\n");
    EXPECT_EQ(found[0].number, 3);
    EXPECT_EQ(found[1].number, -1);
    EXPECT_EQ(found[2].kind, MessageKind::kEnded);
    EXPECT_EQ(found[2].number, 137);
  }
}

TEST(Messages, NonsenseIsRefused) {
  MessageReader unknown(true);
  unknown.add("?12345678");
  EXPECT_THROW(unknown.next(), PeerFailed);
  MessageReader endless(true);
  endless.add(std::string("o\0\0\0\0\xff\xff\xff\xff", 9));
  EXPECT_THROW(endless.next(), PeerFailed);
  MessageReader chatty(false);
  chatty.add(std::string(2 << 20, 'x'));
  EXPECT_THROW(chatty.next(), PeerFailed);
}

TEST(NodeJob, IsReadAsItWasWritten) {
  NodeJob job;
  job.launch.processes_per_node = 2;
  job.launch.stop_grace = std::chrono::milliseconds(500);
  job.launch.command = {"sh", "-c", "\xff\n"};
  job.launch.environment["A"] = std::string("b\0", 2);
  job.folder = "/\xe4";
  job.logs_as_json = true;
  const NodeJob read = node_job_from(to_text(job));
  EXPECT_EQ(read.launch.processes_per_node, 2);
  EXPECT_EQ(read.launch.stop_grace, job.launch.stop_grace);
  EXPECT_EQ(read.launch.command, job.launch.command);
  EXPECT_EQ(read.launch.environment, job.launch.environment);
  EXPECT_EQ(read.folder, job.folder);
  EXPECT_TRUE(read.logs_as_json);
}

TEST(NodeJob, IsNoNonsense) {
  NodeJob job;
  job.longest_silence = std::chrono::milliseconds(int64_t{1} << 32);  // no int
  const std::string text = to_text(NodeJob());
  for (const std::string& nonsense : {std::string(), std::string("\xa0"), text.substr(1), text + "a", to_text(job)}) {
    EXPECT_THROW(node_job_from(nonsense), PeerFailed);
  }
}

}  // namespace
}  // namespace cohort::nodes
