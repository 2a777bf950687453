// Lines in the program's log: log.info("rank ", rank, " connected"). Threads: any.
#pragma once

#include <sstream>

#include <cohort/api/host/log.h>

namespace cohort::sdk {
inline namespace v1 {

/// A borrowed handle that does nothing on a host without a log. Parts are formatted only if the line is written.
class Log {
 public:
  Log(const cohort_host* host, const cohort_log_1* table) : host_(host), table_(table) {}

  template <class... Parts>
  void debug(const Parts&... parts) const {
    write(COHORT_LOG_DEBUG, parts...);
  }
  template <class... Parts>
  void info(const Parts&... parts) const {
    write(COHORT_LOG_INFO, parts...);
  }
  template <class... Parts>
  void warning(const Parts&... parts) const {
    write(COHORT_LOG_WARNING, parts...);
  }
  template <class... Parts>
  void error(const Parts&... parts) const {
    write(COHORT_LOG_ERROR, parts...);
  }

 private:
  template <class... Parts>
  void write(int32_t level, const Parts&... parts) const {
    if (!table_ || !table_->enabled(host_, level)) return;
    std::ostringstream line;
    (line << ... << parts);
    table_->log(host_, level, line.str().c_str());
  }

  const cohort_host* host_;
  const cohort_log_1* table_;
};

}  // namespace v1
}  // namespace cohort::sdk
