// SPDX-License-Identifier: GPL-2.0-only
/*
 * Traffic of the benchmark that iperf3 does not make
 *
 *	load udp  NS1 NS2 ADDRESS SIZE COUNT	batches of 32, sent and received in
 *						turn: nothing is lost or waited for
 *	load flood NS1 NS2 ADDRESS SIZE SECONDS WINDOW
 *						a thread that sends and one that
 *						receives, at most WINDOW on their
 *						way; 0: as fast as the sender can
 *	load rr   NS1 NS2 ADDRESS COUNT SECONDS	requests and answers of one octet,
 *						until COUNT or SECONDS (0: no limit)
 *	load mark on|off			for tools/testing/bench/profile
 *
 * from network namespace NS1 to ADDRESS in NS2.  The result is one line of JSON.
 * On two CPUs NS1's end runs on the first and NS2's on the second; udp has one
 * thread, which stays where it is.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/types.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define BATCH		32
#define MAX_SIZE	65536
#define UDP_PORT	5203
#define RR_PORT		5204
#define RR_WARM_UP	100

/* A latency histogram: each power of two in so many parts */
#define HIST_PARTS	64
#define HIST_SIZE	(64 * HIST_PARTS)

struct batch {
	struct mmsghdr msgs[BATCH];
	struct iovec iovs[BATCH];
	char octets[BATCH][MAX_SIZE];
};

static struct batch tx_batch, rx_batch;
static atomic_ullong sent, received;
static atomic_bool stop;

static __u64 now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (__u64)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* What insns.c counts is what runs between the two. */
static void mark(bool on)
{
	if (on)
		__asm__ volatile(".byte 0x0f, 0x1f, 0x84, 0x00, 0x78, 0x56, 0x34, 0x11");
	else
		__asm__ volatile(".byte 0x0f, 0x1f, 0x84, 0x00, 0x78, 0x56, 0x34, 0x12");
}

static void enter(const char *ns)
{
	char path[256];
	int fd;

	snprintf(path, sizeof(path), "/run/netns/%s", ns);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || setns(fd, CLONE_NEWNET))
		err(1, "%s", path);
	close(fd);
}

/* The calling thread to a CPU, where there are several */
static void pin(int cpu)
{
	cpu_set_t set;

	if (sysconf(_SC_NPROCESSORS_ONLN) < 2)
		return;
	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		err(1, "sched_setaffinity");
}

static socklen_t parse_address(const char *text, int port,
			       struct sockaddr_storage *to)
{
	struct sockaddr_in *v4 = (struct sockaddr_in *)to;
	struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)to;

	memset(to, 0, sizeof(*to));
	if (inet_pton(AF_INET, text, &v4->sin_addr) == 1) {
		v4->sin_family = AF_INET;
		v4->sin_port = htons(port);
		return sizeof(*v4);
	}
	if (inet_pton(AF_INET6, text, &v6->sin6_addr) != 1)
		errx(1, "%s is no address", text);
	v6->sin6_family = AF_INET6;
	v6->sin6_port = htons(port);
	return sizeof(*v6);
}

static void batch_init(struct batch *batch, size_t size)
{
	for (int i = 0; i < BATCH; i++) {
		memset(batch->octets[i], 'a' + i, size);
		batch->iovs[i].iov_base = batch->octets[i];
		batch->iovs[i].iov_len = size;
		batch->msgs[i].msg_hdr.msg_iov = &batch->iovs[i];
		batch->msgs[i].msg_hdr.msg_iovlen = 1;
	}
}

/* A pair of sockets for datagrams, the first one connected to the second. */
static void udp_pair(char **arg, size_t size, int *tx, int *rx)
{
	const struct timeval limit = { .tv_sec = 1 };
	const int room = 8 << 20;
	struct sockaddr_storage to;
	socklen_t len = parse_address(arg[2], UDP_PORT, &to);

	if (!size || size > MAX_SIZE - 100)
		errx(1, "datagrams of %zu octets?", size);
	batch_init(&tx_batch, size);
	batch_init(&rx_batch, size);
	enter(arg[1]);
	*rx = socket(to.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (*rx < 0 || bind(*rx, (struct sockaddr *)&to, len))
		err(1, "bind");
	if (setsockopt(*rx, SOL_SOCKET, SO_RCVBUFFORCE, &room, sizeof(room)) ||
	    setsockopt(*rx, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)))
		err(1, "setsockopt");
	enter(arg[0]);
	*tx = socket(to.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (*tx < 0 || connect(*tx, (struct sockaddr *)&to, len))
		err(1, "connect");
}

static int send_batch(int fd, int count)
{
	int done = 0;

	while (done < count) {
		int ret = sendmmsg(fd, tx_batch.msgs + done, count - done, 0);

		if (ret < 0 && errno == ENOBUFS)
			return done;
		if (ret < 0)
			err(1, "sendmmsg");
		done += ret;
	}
	return done;
}

/* At least one datagram, at most @count; 0 when none came for a second. */
static int receive_batch(int fd, int count)
{
	int ret = recvmmsg(fd, rx_batch.msgs, count, MSG_WAITFORONE, NULL);

	if (ret < 0 && errno != EAGAIN)
		err(1, "recvmmsg");
	return ret < 0 ? 0 : ret;
}

static int udp(char **arg)
{
	__u64 count = strtoull(arg[4], NULL, 0);
	__u64 begin = 0, last, done = 0, lost = 0;
	int tx, rx;

	udp_pair(arg, strtoul(arg[3], NULL, 0), &tx, &rx);
	/* The first eighth warms up. */
	for (__u64 n = 0; n < count + count / 8; n += BATCH) {
		int left;

		if (!begin && n >= count / 8) {
			mark(true);
			begin = now_ns();
			done = 0;
			lost = 0;
		}
		for (left = send_batch(tx, BATCH); left; ) {
			int got = receive_batch(rx, left);

			if (!got)
				break;
			left -= got;
			done += got;
		}
		lost += left;
	}
	last = now_ns();
	mark(false);
	printf("{\"packets\": %llu, \"ns\": %llu, \"lost\": %llu}\n",
	       done, last - begin, lost);
	return 0;
}

static __u64 window;

static void *flood_sender(void *arg)
{
	int fd = *(int *)arg;

	pin(0);
	while (!stop) {
		if (window && sent - received + BATCH > window) {
			sched_yield();
			continue;
		}
		sent += send_batch(fd, BATCH);
	}
	return NULL;
}

static void *flood_receiver(void *arg)
{
	int fd = *(int *)arg;

	pin(1);
	while (!stop) {
		int got = receive_batch(fd, BATCH);

		/* What is lost must not close the window for good. */
		if (!got && window)
			received = sent;
		received += got;
	}
	return NULL;
}

static int flood(char **arg)
{
	__u64 begin, tx_begin, rx_begin, took, tx_done, rx_done;
	double seconds = atof(arg[4]);
	pthread_t threads[2];
	int tx, rx;

	window = strtoull(arg[5], NULL, 0);
	udp_pair(arg, strtoul(arg[3], NULL, 0), &tx, &rx);
	if (pthread_create(&threads[0], NULL, flood_sender, &tx) ||
	    pthread_create(&threads[1], NULL, flood_receiver, &rx))
		errx(1, "pthread_create");
	usleep(300000);
	begin = now_ns();
	tx_begin = sent;
	rx_begin = received;
	usleep(seconds * 1000000);
	tx_done = sent - tx_begin;
	rx_done = received - rx_begin;
	took = now_ns() - begin;
	stop = true;
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	printf("{\"sent\": %llu, \"packets\": %llu, \"ns\": %llu}\n",
	       tx_done, rx_done, took);
	return 0;
}

static __u32 hist[HIST_SIZE];

static unsigned int hist_slot(__u64 ns)
{
	unsigned int power = ns < HIST_PARTS ? 0 : 63 - __builtin_clzll(ns) - 5;

	return power * HIST_PARTS + (ns >> power) % HIST_PARTS;
}

/* The time that so many of @total did not exceed, within 3 % */
static __u64 hist_percentile(__u64 total, double part)
{
	__u64 want = total * part;

	for (unsigned int i = 0; i < HIST_SIZE; i++) {
		unsigned int power = i / HIST_PARTS;
		__u64 value = i % HIST_PARTS;

		if (hist[i] > want)
			return value << power;
		want -= hist[i];
	}
	return 0;
}

static void no_delay(int fd)
{
	const int on = 1;

	if (setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)))
		err(1, "TCP_NODELAY");
}

static void *rr_server(void *arg)
{
	int fd = accept4(*(int *)arg, NULL, NULL, SOCK_CLOEXEC);
	char octet;

	if (fd < 0)
		err(1, "accept");
	pin(1);
	no_delay(fd);
	while (recv(fd, &octet, 1, 0) == 1)
		if (send(fd, &octet, 1, 0) != 1)
			err(1, "send");
	close(fd);
	return NULL;
}

static int rr(char **arg)
{
	__u64 limit = strtoull(arg[3], NULL, 0);
	__u64 seconds = strtoull(arg[4], NULL, 0);
	__u64 begin = 0, last = 0, count = 0;
	struct sockaddr_storage to;
	socklen_t len = parse_address(arg[2], RR_PORT, &to);
	const int on = 1;
	pthread_t thread;
	int server, fd;

	enter(arg[1]);
	server = socket(to.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (server < 0 ||
	    setsockopt(server, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) ||
	    bind(server, (struct sockaddr *)&to, len) || listen(server, 1))
		err(1, "listen");
	if (pthread_create(&thread, NULL, rr_server, &server))
		errx(1, "pthread_create");
	pin(0);
	enter(arg[0]);
	fd = socket(to.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || connect(fd, (struct sockaddr *)&to, len))
		err(1, "connect");
	no_delay(fd);
	for (int n = -RR_WARM_UP; ; n++) {
		char octet = 'x';
		__u64 t;

		if (!n) {
			mark(true);
			begin = now_ns();
			last = begin;
		}
		if (send(fd, &octet, 1, 0) != 1 || recv(fd, &octet, 1, 0) != 1)
			err(1, "transaction");
		if (n < 0)
			continue;
		t = now_ns();
		hist[hist_slot(t - last)]++;
		last = t;
		count++;
		if ((limit && count >= limit) ||
		    (seconds && t - begin >= seconds * 1000000000))
			break;
	}
	mark(false);
	close(fd);
	pthread_join(thread, NULL);
	printf("{\"count\": %llu, \"ns\": %llu, \"p50\": %llu, \"p99\": %llu}\n",
	       count, last - begin, hist_percentile(count, 0.5),
	       hist_percentile(count, 0.99));
	return 0;
}

int main(int argc, char **argv)
{
	if (argc == 7 && !strcmp(argv[1], "udp"))
		return udp(argv + 2);
	if (argc == 8 && !strcmp(argv[1], "flood"))
		return flood(argv + 2);
	if (argc == 7 && !strcmp(argv[1], "rr"))
		return rr(argv + 2);
	if (argc == 3 && !strcmp(argv[1], "mark")) {
		mark(!strcmp(argv[2], "on"));
		return 0;
	}
	errx(2, "load {udp|flood|rr} NS1 NS2 ADDRESS ... or load mark {on|off}");
}
