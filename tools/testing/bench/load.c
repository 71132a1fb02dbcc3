// SPDX-License-Identifier: GPL-2.0-only
/*
 * Traffic of the benchmark that iperf3 does not make
 *
 *	load udp  NS1 NS2 ADDRESS SIZE COUNT	batches of 32, sent and received in
 *						turn, one ahead: nothing is lost or
 *						waited for
 *	load flood NS1 NS2 ADDRESS SIZE SECONDS WINDOW [ROOM]
 *						a thread that sends and one that
 *						receives, up to WINDOW in flight
 *						(0: as fast as the sender can).
 *						ROOM: bytes of send buffer; 0 or
 *						none: the default
 *	load windows NS1 NS2 ADDRESS SIZE MS ROOM
 *						the same without a window, until
 *						killed: a line [NS, COUNT] every
 *						MS ms, time and number received
 *						since the last line; the sender
 *						waits out errors
 *	load held NS1 NS2 ADDRESS SIZE COUNT BURSTS
 *						bursts of COUNT to a socket with the
 *						default receive buffer that is
 *						not read meanwhile; how many it
 *						holds
 *	load tcp NS1 NS2 ADDRESS AMOUNT CPU1 CPU2 PORT
 *						a connection, its sender and its
 *						receiver on these CPUs, that counts
 *						AMOUNT ("64M" or "500ms") after it
 *						has carried a part of that and is
 *						warm
 *	load rr   NS1 NS2 ADDRESS COUNT SECONDS	one-byte requests and answers,
 *						until COUNT or SECONDS (0: no limit)
 *	load peers NS COUNT SECONDS GAP NSR...	datagrams to addresses on stdin,
 *						which are local to hosts NSR:
 *						COUNT to each at once, then one
 *						to each every GAP ms for SECONDS
 *	load forge NS DEV LLADDR IPV4 OWN RATE SECONDS
 *						ARP requests for IPV4 to the host at
 *						LLADDR, RATE a second, each from
 *						another hardware address: half of
 *						them with the GID of OWN and another
 *						QPN, half with a GID of no host
 *	load inject FILE RATE SECONDS [AT LEN]...
 *						the packet on stdin written to
 *						FILE RATE times a second, with
 *						LEN random bytes at AT
 *	load mark on|off			for tools/testing/bench/profile
 *
 * from network namespace NS1 to ADDRESS in NS2.  The result is one line of JSON.
 * On two CPUs NS1's end runs on the first and NS2's on the second; udp has one
 * thread, which is not pinned.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <linux/types.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
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
#define ROOM		(8 << 20)
/* Bytes written and read at a time */
#define TCP_SIZE	(128 << 10)
/* The part of a stream that warms it up, and bytes or ns of that at least */
#define TCP_WARM_UP	4
#define TCP_LEAST	(4 << 20)
#define TCP_LEAST_NS	300000000

/* Latency histogram: number of parts of each power of two */
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
/* Wait out network errors instead of exiting. */
static bool patient;

static __u64 now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (__u64)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* insns.c counts what runs between mark(true) and mark(false). */
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

/* Pin the calling thread to a CPU, if there are several */
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

/* Set a socket's buffer size, even above the system's limit; 0: the default */
static void give_room(int fd, int option, int room)
{
	if (room && setsockopt(fd, SOL_SOCKET, option, &room, sizeof(room)))
		err(1, "setsockopt");
}

/*
 * Make a pair of datagram sockets, @tx connected to @rx, which has @room bytes
 * of receive buffer.
 */
static void udp_pair(char **arg, size_t size, int room, int *tx, int *rx)
{
	const struct timeval limit = { .tv_sec = 1 };
	struct sockaddr_storage to;
	socklen_t len = parse_address(arg[2], UDP_PORT, &to);

	if (!size || size > MAX_SIZE - 100)
		errx(1, "datagrams of %zu bytes?", size);
	batch_init(&tx_batch, size);
	batch_init(&rx_batch, size);
	enter(arg[1]);
	*rx = socket(to.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (*rx < 0 || bind(*rx, (struct sockaddr *)&to, len))
		err(1, "bind");
	give_room(*rx, SO_RCVBUFFORCE, room);
	if (setsockopt(*rx, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)))
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
		if (ret < 0 && patient) {
			usleep(1000);
			return done;
		}
		if (ret < 0)
			err(1, "sendmmsg");
		done += ret;
	}
	return done;
}

/* Receive one to @count datagrams; 0 if none arrived for a second. */
static int receive_batch(int fd, int count)
{
	int ret = recvmmsg(fd, rx_batch.msgs, count, MSG_WAITFORONE, NULL);

	if (ret < 0 && errno != EAGAIN && !patient)
		err(1, "recvmmsg");
	return ret < 0 ? 0 : ret;
}

static int udp(char **arg)
{
	__u64 count = strtoull(arg[4], NULL, 0);
	__u64 begin = 0, last, done = 0, lost = 0;
	int tx, rx;

	udp_pair(arg, strtoul(arg[3], NULL, 0), ROOM, &tx, &rx);
	/* One batch ahead: don't wait for an interrupt that is held back. */
	send_batch(tx, BATCH);
	/* An additional eighth at the start is for warming up. */
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

		/* Losses must not close the window for good. */
		if (!got && window)
			received = sent;
		received += got;
	}
	return NULL;
}

/* Make the sockets, with @room bytes of send buffer, and the threads */
static void flood_start(char **arg, int room, pthread_t *threads)
{
	static int tx, rx;

	udp_pair(arg, strtoul(arg[3], NULL, 0), ROOM, &tx, &rx);
	give_room(tx, SO_SNDBUFFORCE, room);
	if (pthread_create(&threads[0], NULL, flood_sender, &tx) ||
	    pthread_create(&threads[1], NULL, flood_receiver, &rx))
		errx(1, "pthread_create");
}

static int flood(char **arg, int room)
{
	__u64 begin, tx_begin, rx_begin, took, tx_done, rx_done;
	double seconds = atof(arg[4]);
	pthread_t threads[2];

	window = strtoull(arg[5], NULL, 0);
	flood_start(arg, room, threads);
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

static int windows(char **arg)
{
	__u64 each = strtoull(arg[4], NULL, 0) * 1000000;
	__u64 now, due = now_ns() + each, before = 0;
	pthread_t threads[2];

	patient = true;
	flood_start(arg, atoi(arg[5]), threads);
	for (;; due += each) {
		__u64 count;

		now = now_ns();
		if (due > now)
			usleep((due - now) / 1000);
		count = received;
		printf("[%llu, %llu]\n", now_ns(), count - before);
		if (fflush(stdout))
			return 1;
		before = count;
	}
}

/* How many of a burst a socket holds that is not read meanwhile */
static int held_burst(char **arg, size_t size, int count)
{
	int tx, rx, done = 0;

	udp_pair(arg, size, 0, &tx, &rx);
	send_batch(tx, count);
	usleep(100000);
	while (done < count && recv(rx, rx_batch.octets[0], size, MSG_DONTWAIT) >= 0)
		done++;
	close(tx);
	close(rx);
	return done;
}

static int held(char **arg)
{
	size_t size = strtoul(arg[3], NULL, 0);
	int count = atoi(arg[4]), bursts = atoi(arg[5]);
	__u64 done = 0;

	if (count < 1 || count > BATCH || bursts < 1)
		errx(1, "%d bursts of %d?", bursts, count);
	held_burst(arg, size, count);	/* establishes a connection */
	for (int n = 0; n < bursts; n++)
		done += held_burst(arg, size, count);
	printf("{\"sent\": %d, \"held\": %llu}\n", bursts * count, done);
	return 0;
}

static __u32 hist[HIST_SIZE];

static unsigned int hist_slot(__u64 ns)
{
	unsigned int power = ns < HIST_PARTS ? 0 : 63 - __builtin_clzll(ns) - 5;

	return power * HIST_PARTS + (ns >> power) % HIST_PARTS;
}

/* The time that @part of @total did not exceed, within 3 % */
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

/* Make a server in @ns, and a connection to it from @from; returns the latter */
static int tcp_connect(const char *from, const char *ns, const char *address,
		       int port, int *server)
{
	struct sockaddr_storage to;
	socklen_t len = parse_address(address, port, &to);
	const int on = 1;
	int fd;

	enter(ns);
	*server = socket(to.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (*server < 0 ||
	    setsockopt(*server, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) ||
	    bind(*server, (struct sockaddr *)&to, len) || listen(*server, 1))
		err(1, "listen");
	enter(from);
	fd = socket(to.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || connect(fd, (struct sockaddr *)&to, len))
		err(1, "connect");
	return fd;
}

struct tcp_end {
	int fd;
	int cpu;
};

static void *tcp_sender(void *arg)
{
	static const char octets[TCP_SIZE];
	const struct tcp_end *end = arg;

	pin(end->cpu);
	while (!stop)
		if (send(end->fd, octets, sizeof(octets), MSG_NOSIGNAL) < 0 && !stop)
			err(1, "send");
	return NULL;
}

static int tcp(char **arg)
{
	struct tcp_end tx = { .cpu = atoi(arg[4]) };
	__u64 amount, enough, at, begin = 0, took, total = 0, counted = 0;
	static char octets[TCP_SIZE];
	pthread_t thread;
	char *unit;
	bool timed;
	int server, rx;

	/* Bytes, or nanoseconds */
	amount = strtoull(arg[3], &unit, 0);
	timed = !strcmp(unit, "ms");
	if (!amount || (!timed && strcmp(unit, "M")))
		errx(1, "%s is no amount", arg[3]);
	amount *= timed ? 1000000 : 1 << 20;
	enough = amount / TCP_WARM_UP;
	if (enough < (timed ? TCP_LEAST_NS : TCP_LEAST))
		enough = timed ? TCP_LEAST_NS : TCP_LEAST;

	tx.fd = tcp_connect(arg[0], arg[1], arg[2], atoi(arg[6]), &server);
	rx = accept4(server, NULL, NULL, SOCK_CLOEXEC);
	if (rx < 0)
		err(1, "accept");
	pin(atoi(arg[5]));
	at = timed ? now_ns() : 0;
	if (pthread_create(&thread, NULL, tcp_sender, &tx))
		errx(1, "pthread_create");
	for (;;) {
		ssize_t ret = recv(rx, octets, sizeof(octets), 0);
		__u64 now;

		if (ret <= 0)
			err(1, "recv");
		total += ret;
		now = timed ? now_ns() : total;
		if (now - at < enough)
			continue;
		if (begin)
			break;
		/* It is warm: begin. */
		at = now;
		enough = amount;
		counted = total;
		mark(true);
		begin = now_ns();
	}
	took = now_ns() - begin;
	mark(false);
	stop = true;
	close(rx);
	pthread_join(thread, NULL);
	printf("{\"bytes\": %llu, \"ns\": %llu}\n", total - counted, took);
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
	pthread_t thread;
	int server, fd;

	fd = tcp_connect(arg[0], arg[1], arg[2], RR_PORT, &server);
	if (pthread_create(&thread, NULL, rr_server, &server))
		errx(1, "pthread_create");
	pin(0);
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

#define MAX_PEERS	4096
#define MAX_HOSTS	64
#define QUIET_NS	1000000000ULL
#define PEERS_LIMIT_NS	30000000000ULL

/* Datagrams received at an address */
struct peer {
	struct sockaddr_in addr;
	__u64 received;
	__u64 first_ns;
	__u64 last_ns;
	__u64 gap_ns;
};

static struct peer peers[MAX_PEERS];
static int num_peers, resolved;
static int hosts[MAX_HOSTS];
static int num_hosts;
static atomic_ullong resolved_ns, last_ns;

static void peers_read(void)
{
	char text[64];

	while (num_peers < MAX_PEERS && scanf("%63s", text) == 1) {
		struct sockaddr_in *to = &peers[num_peers++].addr;

		to->sin_family = AF_INET;
		to->sin_port = htons(UDP_PORT);
		if (inet_pton(AF_INET, text, &to->sin_addr) != 1)
			errx(1, "%s is no address", text);
	}
}

static void peers_listen(const char *ns)
{
	const struct sockaddr_in any = {
		.sin_family = AF_INET,
		.sin_port = htons(UDP_PORT),
	};
	const int room = 64 << 20;
	int fd;

	enter(ns);
	fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0 || bind(fd, (struct sockaddr *)&any, sizeof(any)) ||
	    setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &room, sizeof(room)))
		err(1, "receiver in %s", ns);
	hosts[num_hosts++] = fd;
}

/* A datagram starts with the number of its peer. */
static void peer_heard(__u32 number, __u64 now)
{
	struct peer *peer;

	if (number >= (__u32)num_peers)
		return;
	peer = &peers[number];
	if (!peer->received++) {
		peer->first_ns = now;
		if (++resolved == num_peers)
			resolved_ns = now;
	} else if (now - peer->last_ns > peer->gap_ns) {
		peer->gap_ns = now - peer->last_ns;
	}
	peer->last_ns = now;
	received++;
	last_ns = now;
}

static void *peers_receiver(void *arg)
{
	(void)arg;
	pin(1);
	while (!stop) {
		int got = 0;

		for (int i = 0; i < num_hosts; i++) {
			int n = recvmmsg(hosts[i], rx_batch.msgs, BATCH,
					 MSG_DONTWAIT, NULL);
			__u64 now = now_ns();

			for (int j = 0; j < n; j++)
				peer_heard(*(__u32 *)rx_batch.octets[j], now);
			got += n > 0 ? n : 0;
		}
		if (!got)
			usleep(200);
	}
	return NULL;
}

static void peer_send(int fd, int number, int count)
{
	for (int i = 0; i < BATCH; i++) {
		struct msghdr *msg = &tx_batch.msgs[i].msg_hdr;

		msg->msg_name = &peers[number].addr;
		msg->msg_namelen = sizeof(peers[number].addr);
		*(__u32 *)tx_batch.octets[i] = number;
	}
	for (; count > 0; count -= BATCH)
		sent += send_batch(fd, count < BATCH ? count : BATCH);
}

/* Send one to each peer every @gap_ns, spread evenly. */
static void peers_flow(int fd, __u64 seconds, __u64 gap_ns)
{
	__u64 begin = now_ns(), end = begin + seconds * 1000000000;

	for (__u64 n = 0; ; n++) {
		__u64 due = begin + n * gap_ns / num_peers, now = now_ns();

		if (due >= end)
			return;
		if (due > now + 1000000)
			usleep((due - now) / 1000);
		peer_send(fd, n % num_peers, 1);
	}
}

static int peers_run(char **arg, int num_ns)
{
	int count = atoi(arg[1]);
	__u64 begin, burst, gap = 0;
	pthread_t thread;
	int tx;

	peers_read();
	batch_init(&tx_batch, 64);
	batch_init(&rx_batch, 64);
	if (!num_peers || num_ns > MAX_HOSTS)
		errx(1, "%d peers in %d hosts?", num_peers, num_ns);
	for (int i = 0; i < num_ns; i++)
		peers_listen(arg[4 + i]);
	enter(arg[0]);
	tx = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (tx < 0 || pthread_create(&thread, NULL, peers_receiver, NULL))
		err(1, "sender");
	pin(0);
	begin = now_ns();
	for (int n = 0; n < num_peers; n++)
		peer_send(tx, n, count);
	/* Until all have arrived, or no more arrive */
	last_ns = now_ns();
	while (received < sent && now_ns() - begin < PEERS_LIMIT_NS &&
	       now_ns() - last_ns < (resolved_ns ? 1 : 5) * QUIET_NS)
		usleep(1000);
	burst = received;
	printf("{\"peers\": %d, \"sent\": %llu, \"received\": %llu, \"ns\": %llu",
	       num_peers, sent, burst,
	       resolved_ns ? resolved_ns - begin : 0);
	if (atoi(arg[2])) {
		for (int n = 0; n < num_peers; n++)
			peers[n].gap_ns = 0;
		fflush(stdout);
		peers_flow(tx, strtoull(arg[2], NULL, 0),
			   strtoull(arg[3], NULL, 0) * 1000000);
		usleep(500000);
	}
	stop = true;
	pthread_join(thread, NULL);
	for (int n = 0; n < num_peers; n++)
		if (peers[n].gap_ns > gap)
			gap = peers[n].gap_ns;
	printf(", \"flow_sent\": %llu, \"flow_received\": %llu, \"gap_ns\": %llu}\n",
	       sent - (__u64)num_peers * count, received - burst, gap);
	return 0;
}

#define LLADDR_LEN	20
#define GID_AT		4
#define GUID_AT		12
/* Few enough senders for any neighbour table */
#define FORGED_FIRST	101
#define FORGED_SENDERS	100

/* RFC 4391, section 9.1 */
struct ib_arp {
	struct arphdr head;
	__u8 sender[LLADDR_LEN];
	__u8 sender_ip[4];
	__u8 target[LLADDR_LEN];
	__u8 target_ip[4];
} __attribute__((packed));

static void parse_lladdr(const char *text, __u8 *to)
{
	for (int i = 0; i < LLADDR_LEN; i++, text += 3)
		if (sscanf(text, "%2hhx", &to[i]) != 1)
			errx(1, "%s is no hardware address", text);
}

/* Open a packet socket, and address the messages of tx_batch to @lladdr */
static int forge_socket(const char *dev, const __u8 *lladdr)
{
	static struct {
		struct sockaddr_ll ll;
		__u8 more[LLADDR_LEN];
	} to;
	int fd = socket(AF_PACKET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		err(1, "packet socket");
	to.ll.sll_family = AF_PACKET;
	to.ll.sll_protocol = htons(ETH_P_ARP);
	to.ll.sll_ifindex = if_nametoindex(dev);
	to.ll.sll_halen = LLADDR_LEN;
	memcpy((char *)&to + offsetof(struct sockaddr_ll, sll_addr), lladdr,
	       LLADDR_LEN);
	batch_init(&tx_batch, sizeof(struct ib_arp));
	for (int i = 0; i < BATCH; i++) {
		tx_batch.msgs[i].msg_hdr.msg_name = &to;
		tx_batch.msgs[i].msg_hdr.msg_namelen =
			offsetof(struct sockaddr_ll, sll_addr) + LLADDR_LEN;
	}
	return fd;
}

/* A unique request: @number is in the QPN and, if odd, in the GUID. */
static void forge_one(struct ib_arp *arp, const __u8 *own, const __u8 *ip,
		      __u32 number)
{
	__u32 qpn = htonl(number & 0xffffff), low = htonl(number);

	arp->head.ar_hrd = htons(ARPHRD_INFINIBAND);
	arp->head.ar_pro = htons(ETH_P_IP);
	arp->head.ar_hln = LLADDR_LEN;
	arp->head.ar_pln = 4;
	arp->head.ar_op = htons(ARPOP_REQUEST);
	memcpy(arp->sender, &qpn, sizeof(qpn));
	memcpy(arp->sender + GID_AT, own + GID_AT, LLADDR_LEN - GID_AT);
	if (number & 1) {
		memset(arp->sender + GUID_AT, 0x5a, 4);
		memcpy(arp->sender + GUID_AT + 4, &low, sizeof(low));
	}
	memset(arp->target, 0, sizeof(arp->target));
	memcpy(arp->target_ip, ip, 4);
	memcpy(arp->sender_ip, ip, 4);
	arp->sender_ip[3] = FORGED_FIRST + number % FORGED_SENDERS;
}

static int forge(char **arg)
{
	__u64 rate = strtoull(arg[5], NULL, 0), number = 0x10000, begin, end;
	__u8 lladdr[LLADDR_LEN], own[LLADDR_LEN], ip[4];
	int fd;

	parse_lladdr(arg[2], lladdr);
	parse_lladdr(arg[4], own);
	if (inet_pton(AF_INET, arg[3], ip) != 1 || !rate)
		errx(1, "%s a second to %s?", arg[5], arg[3]);
	enter(arg[0]);
	fd = forge_socket(arg[1], lladdr);
	patient = true;
	begin = now_ns();
	end = begin + strtoull(arg[6], NULL, 0) * 1000000000;
	for (__u64 n = 0; ; n += BATCH) {
		__u64 due = begin + n * 1000000000 / rate, now = now_ns();

		if (now >= end)
			break;
		if (due > now + 1000000)
			usleep((due - now) / 1000);
		for (int i = 0; i < BATCH; i++)
			forge_one((struct ib_arp *)tx_batch.octets[i], own, ip,
				  number++);
		sent += send_batch(fd, BATCH);
	}
	printf("{\"sent\": %llu, \"ns\": %llu}\n", sent, now_ns() - begin);
	return 0;
}

/* ---- packets written to a file ------------------------------------------ */

static __u64 random_next(__u64 *state)
{
	__u64 x = *state += 0x9e3779b97f4a7c15ULL;

	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ULL;
	x = (x ^ x >> 27) * 0x94d049bb133111ebULL;
	return x ^ x >> 31;
}

static void inject_random(char *packet, ssize_t size, char **arg, int num)
{
	static __u64 state;

	if (!state)
		state = now_ns();
	for (int i = 0; i + 1 < num; i += 2) {
		int at = atoi(arg[i]), end = at + atoi(arg[i + 1]);

		if (at < 0 || end > size)
			errx(1, "the packet has %zd bytes", size);
		for (; at < end; at++)
			packet[at] = random_next(&state);
	}
}

/* Write in steps of a millisecond; skip packets when falling behind. */
static int inject(char **arg, int num)
{
	__u64 rate = strtoull(arg[1], NULL, 0), count = 0;
	char *packet = tx_batch.octets[0];
	__u64 begin, end, now, due;
	int fd = open(arg[0], O_WRONLY | O_CLOEXEC);
	ssize_t size = read(0, packet, MAX_SIZE);

	if (fd < 0 || size <= 0)
		err(1, "%s", arg[0]);
	begin = now_ns();
	end = begin + strtoull(arg[2], NULL, 0) * 1000000000;
	for (now = begin; now < end; now = now_ns()) {
		due = (now - begin) * rate / 1000000000;
		for (int n = 0; count < due && n < 1000; n++, count++) {
			inject_random(packet, size, arg + 3, num - 3);
			if (write(fd, packet, size) != size)
				err(1, "%s", arg[0]);
			sent++;
		}
		if (count < due)
			count = due;
		else
			usleep(1000);
	}
	printf("{\"sent\": %llu, \"ns\": %llu}\n", sent, now - begin);
	return 0;
}

int main(int argc, char **argv)
{
	if (argc == 7 && !strcmp(argv[1], "udp"))
		return udp(argv + 2);
	if ((argc == 8 || argc == 9) && !strcmp(argv[1], "flood"))
		return flood(argv + 2, argc == 9 ? atoi(argv[8]) : 0);
	if (argc == 8 && !strcmp(argv[1], "windows"))
		return windows(argv + 2);
	if (argc == 8 && !strcmp(argv[1], "held"))
		return held(argv + 2);
	if (argc == 9 && !strcmp(argv[1], "forge"))
		return forge(argv + 2);
	if (argc == 9 && !strcmp(argv[1], "tcp"))
		return tcp(argv + 2);
	if (argc == 7 && !strcmp(argv[1], "rr"))
		return rr(argv + 2);
	if (argc >= 7 && !strcmp(argv[1], "peers"))
		return peers_run(argv + 2, argc - 6);
	if (argc >= 5 && !strcmp(argv[1], "inject"))
		return inject(argv + 2, argc - 2);
	if (argc == 3 && !strcmp(argv[1], "mark")) {
		mark(!strcmp(argv[2], "on"));
		return 0;
	}
	errx(2, "load {udp|flood|windows|held|tcp|rr} NS1 NS2 ADDRESS ..., load forge ..., "
		"load inject FILE ... or load mark {on|off}");
}
